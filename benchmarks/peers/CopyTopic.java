import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Copies a topic with Kafka Streams and prints the seconds until a reader of committed records has seen all of it.
 *
 * <p>Arguments: eos or alo, the broker's host:port, the topic, its copy, how many records there are, a folder for state.
 */
public final class CopyTopic {
    private static final Duration SILENT = Duration.ofSeconds(60);

    private CopyTopic() {}

    public static void main(String[] arguments) throws Exception {
        boolean once = arguments[0].equals("eos");
        Map<String, Object> broker = Map.of("bootstrap.servers", arguments[1]);
        String from = arguments[2];
        String to = arguments[3];
        long count = Long.parseLong(arguments[4]);
        int partitions;
        try (Admin admin = Admin.create(broker)) {
            partitions = admin.describeTopics(List.of(from)).allTopicNames().get().get(from).partitions().size();
            NewTopic made = new NewTopic(to, partitions, (short) 1).configs(Map.of("retention.ms", "-1"));
            admin.createTopics(List.of(made)).all().get();
        }
        Properties settings = new Properties();
        settings.putAll(broker);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, to);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Runtime.getRuntime().availableProcessors());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put("auto.offset.reset", "earliest");
        settings.put(
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            once ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<byte[], byte[]>stream(from).to(to);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        long start = System.nanoTime();
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setUncaughtExceptionHandler(error -> {
                failure.set(error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            read(broker, to, partitions, count, failure);
            System.out.println((System.nanoTime() - start) / 1e9);
        }
    }

    private static void read(
            Map<String, Object> broker, String topic, int partitions, long count, AtomicReference<Throwable> failure) {
        Properties settings = new Properties();
        settings.putAll(broker);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> places = java.util.stream.IntStream.range(0, partitions)
                .mapToObj(partition -> new TopicPartition(topic, partition)).toList();
            consumer.assign(places);
            long seen = 0;
            long heard = System.nanoTime();
            while (seen < count) {
                int found = 0;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    found += record.value() == null ? 0 : 1;
                }
                seen += found;
                heard = found > 0 ? System.nanoTime() : heard;
                if (failure.get() != null || System.nanoTime() - heard > SILENT.toNanos()) {
                    throw new IllegalStateException(seen + " of " + count + " records came", failure.get());
                }
            }
        }
    }
}
