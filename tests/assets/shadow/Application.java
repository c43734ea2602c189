import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * A Kafka Streams application on topics of JSON, until its standard input ends.
 *
 * <p>Arguments: the broker, the application's id, fk or ss, the left, right and output topic, max.task.idle.ms, and a
 * folder for its state. A value is one JSON object; a joined one has the fields of both.
 */
public final class Application {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Consumed<String, String> READ = Consumed.with(TEXT, TEXT);
    private static final String FOREIGN_KEY = "\"fk\": \"";

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder topology = new StreamsBuilder();
        String left = arguments[3];
        String right = arguments[4];
        if (arguments[2].equals("fk")) {
            topology.table(left, READ)
                .join(topology.table(right, READ), Application::foreignKey, Application::both, Materialized.with(TEXT, TEXT))
                .toStream()
                .to(arguments[5], Produced.with(TEXT, TEXT));
        } else {
            JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5));
            topology.stream(left, READ)
                .leftJoin(topology.stream(right, READ), Application::both, window, StreamJoined.with(TEXT, TEXT, TEXT))
                .to(arguments[5], Produced.with(TEXT, TEXT));
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, arguments[6]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[7]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        try (KafkaStreams streams = new KafkaStreams(topology.build(), settings)) {
            streams.start();
            while (System.in.read() >= 0) { }
        }
    }

    private static String foreignKey(String order) {
        int start = order.indexOf(FOREIGN_KEY) + FOREIGN_KEY.length();
        return order.substring(start, order.indexOf('"', start));
    }

    private static String both(String left, String right) {
        return right == null ? left : left.substring(0, left.length() - 1) + ", " + right.substring(1);
    }
}
