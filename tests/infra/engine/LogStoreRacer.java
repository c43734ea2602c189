import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.FileAlreadyExistsException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Writes the files that its input names, each through the log store, and says what became of it. */
public class LogStoreRacer {
  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    for (String setting : args) {
      conf.set(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
    }
    rivermeet.ConditionalLogStore store = new rivermeet.ConditionalLogStore(conf);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    System.out.println("ready");
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] asked = line.split(" ");
      try {
        store.write(new Path(asked[0]), List.of(asked[1]).iterator(), asked.length > 2, conf);
        System.out.println("won");
      } catch (FileAlreadyExistsException lost) {
        System.out.println("lost");
      } catch (Exception failed) {
        System.out.println("failed " + failed);
      }
    }
  }
}
