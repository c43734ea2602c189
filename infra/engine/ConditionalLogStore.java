package rivermeet;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log on S3: a commit is created by one conditional put (If-None-Match), which one of two writers wins.
 *
 * <p>Delta's own store for S3 looks whether the file is there and then puts it, so that two drivers, or a driver and
 * delta-rs, may both take a version for theirs. A put whose answer was lost is sent again by S3A and then finds
 * itself: what is there is compared with what was sent. Commits carry an id of their own, so that equal means ours.
 */
public final class ConditionalLogStore extends io.delta.storage.HadoopFileSystemLogStore {
  private static final String IF_NONE_MATCH = "fs.option.create.conditional.overwrite";

  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      lines.write((actions.next() + "\n").getBytes(UTF_8));
    }
    byte[] sent = lines.toByteArray();
    FileSystem fs = path.getFileSystem(conf);
    try {
      put(fs, path, sent, overwrite);
    } catch (IOException failed) {
      byte[] found = overwrite ? null : read(fs, path);
      if (found == null) {
        throw failed;
      }
      if (!Arrays.equals(found, sent)) {
        throw new FileAlreadyExistsException(path.toString());
      }
    }
  }

  private static void put(FileSystem fs, Path path, byte[] bytes, boolean overwrite) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path).overwrite(true).recursive();
    if (!overwrite) {
      builder.must(IF_NONE_MATCH, true);
    }
    FSDataOutputStream out = builder.build();
    try {
      out.write(bytes);
    } catch (IOException | RuntimeException failed) {
      // Closed, it would put what it has of the commit.
      out.abort();
      throw failed;
    }
    out.close();
  }

  /** What is there; null where nothing is. */
  private static byte[] read(FileSystem fs, Path path) throws IOException {
    try (FSDataInputStream in = fs.open(path)) {
      return in.readAllBytes();
    } catch (FileNotFoundException nothing) {
      return null;
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }
}
