package rivermeet;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.ArrayList;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.internal.io.FileNameSpec;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Staged files on S3: each is written once, where it stays, and those that count are named in {@code files.txt}.
 *
 * <p>Spark's own protocol writes below {@code _temporary} and renames, which S3 does by copying. Without renames, a task
 * that failed, or that was given up and goes on, may leave files beside those that count. They have names of their own,
 * and the driver takes one result of each task, so that no list has them.
 *
 * <p>Only writes that ask for it, by the option {@code rivermeet.named-files}, are made in this way: who finds files by
 * looking into a folder would take all of them.
 */
public final class NamedFilesProtocol extends SQLHadoopMapReduceCommitProtocol {
  private final String path;
  private boolean named;
  private transient ArrayList<String> written;

  public NamedFilesProtocol(String jobId, String path, boolean dynamicPartitionOverwrite) {
    super(jobId, path, dynamicPartitionOverwrite);
    this.path = path;
  }

  @Override
  public void setupJob(JobContext job) {
    named = job.getConfiguration().getBoolean("rivermeet.named-files", false);
    if (!named) {
      super.setupJob(job);
    }
  }

  @Override
  public void setupTask(TaskAttemptContext task) {
    if (named) {
      written = new ArrayList<>();
    } else {
      super.setupTask(task);
    }
  }

  @Override
  public String newTaskTempFile(TaskAttemptContext task, Option<String> folder, FileNameSpec name) {
    if (!named) {
      return super.newTaskTempFile(task, folder, name);
    }
    if (folder.isDefined()) {
      throw new UnsupportedOperationException("named files are not partitioned: " + path + "/" + folder.get());
    }
    int number = task.getTaskAttemptID().getTaskID().getId();
    String file = String.format("%spart-%05d-%s%s", name.prefix(), number, UUID.randomUUID(), name.suffix());
    written.add(file);
    return new Path(path, file).toString();
  }

  @Override
  public TaskCommitMessage commitTask(TaskAttemptContext task) {
    return named ? new TaskCommitMessage(written) : super.commitTask(task);
  }

  @Override
  public void abortTask(TaskAttemptContext task) {
    if (!named) {
      super.abortTask(task);
      return;
    }
    for (String file : written) {
      try {
        Path left = new Path(path, file);
        left.getFileSystem(task.getConfiguration()).delete(left, false);
      } catch (IOException kept) {
        // No list has it, and VACUUM removes it.
        continue;
      }
    }
  }

  @Override
  public void commitJob(JobContext job, Seq<TaskCommitMessage> tasks) {
    if (!named) {
      super.commitJob(job, tasks);
      return;
    }
    String files = CollectionConverters.asJava(tasks).stream()
        .flatMap(NamedFilesProtocol::files)
        .sorted()
        .map(file -> file + "\n")
        .collect(Collectors.joining());
    try {
      put(new Path(path, "files.txt"), files, job.getConfiguration());
    } catch (IOException failed) {
      throw new java.io.UncheckedIOException(failed);
    }
  }

  private static Stream<String> files(TaskCommitMessage message) {
    return ((ArrayList<?>) message.obj()).stream().map(String.class::cast);
  }

  private static void put(Path path, String text, Configuration conf) throws IOException {
    try (FSDataOutputStream out = path.getFileSystem(conf).create(path, true)) {
      out.write(text.getBytes(UTF_8));
    }
  }

  @Override
  public void abortJob(JobContext job) {
    if (!named) {
      super.abortJob(job);
    }
  }
}
