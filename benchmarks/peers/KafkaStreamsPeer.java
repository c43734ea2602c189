import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Kafka Streams on a workload's epochs; one line of JSON about it.
 *
 * <p>Arguments: eos or alo, the workload, the broker's host:port, a folder with epoch_*.bin, a folder for the state, and
 * for how many ms a task waits for an input that has nothing (max.task.idle.ms). A record in a file has its time, key,
 * side (one byte), whether it deletes (one byte), and the longest value.
 */
public final class KafkaStreamsPeer {
    private static final int PARTITIONS = 4;
    private static final int LONGEST = Arrays.stream(Workload.FK.widths).max().getAsInt();
    private static final int RECORD = 2 * Long.BYTES + 2 + LONGEST;
    private static final String APPLICATION = "peer";
    private static final Duration QUIET = Duration.ofSeconds(5);
    private static final Duration SILENT = Duration.ofSeconds(60);

    private final Workload workload;
    private final Map<String, Object> broker;
    private final List<Path> epochs;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private long rowsOut;
    private long finalRows;
    private long checksum;

    private KafkaStreamsPeer(Workload workload, String address, List<Path> epochs) {
        this.workload = workload;
        this.broker = Map.of("bootstrap.servers", address);
        this.epochs = epochs;
    }

    public static void main(String[] arguments) throws Exception {
        Workload workload = Workload.valueOf(arguments[1].toUpperCase(Locale.ROOT));
        List<Path> epochs;
        try (Stream<Path> files = Files.list(Path.of(arguments[3]))) {
            epochs = files.filter(file -> file.toString().endsWith(".bin")).sorted().toList();
        }
        KafkaStreamsPeer peer = new KafkaStreamsPeer(workload, arguments[2], epochs);
        List<Double> seconds = peer.run(arguments[0].equals("eos"), arguments[4], Long.parseLong(arguments[5]));
        long memory = peakMegabytes();
        peer.failIfUnread();
        peer.readAnswer();
        System.out.printf(
            Locale.ROOT,
            "{\"rows_out\": %d, \"epochs\": %s, \"final_rows\": %d, \"checksum\": %d, \"peak_rss_mb\": %d}%n",
            peer.rowsOut, seconds, peer.finalRows, peer.checksum, memory);
    }

    private List<Double> run(boolean exactlyOnce, String state, long idle) throws Exception {
        StreamsBuilder topology = new StreamsBuilder();
        workload.join(topology);
        List<Double> seconds = new ArrayList<>();
        try (Admin admin = Admin.create(broker);
            KafkaProducer<Long, byte[]> producer =
                new KafkaProducer<>(broker, new LongSerializer(), new ByteArraySerializer());
            KafkaStreams streams = new KafkaStreams(topology.build(), settings(exactlyOnce, state, idle))) {
            streams.setUncaughtExceptionHandler(error -> {
                failure.set(error);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            admin.createTopics(
                Stream.of(Workload.LEFT, Workload.RIGHT, Workload.OUTPUT)
                    .map(topic -> new NewTopic(topic, PARTITIONS, (short) 1))
                    .toList()).all().get();
            for (Path epoch : epochs) {
                long start = System.nanoTime();
                long before = 0;
                if (seconds.isEmpty()) {
                    send(epoch, producer);
                    start = System.nanoTime();
                    streams.start();
                    awaitRunning(streams);
                } else {
                    before = written(admin);
                    start = System.nanoTime();
                    send(epoch, producer);
                }
                long end = lastChange(admin, before, start);
                seconds.add(Math.round((end - start) / 1e6) / 1e3);
            }
        }
        return seconds;
    }

    private Properties settings(boolean exactlyOnce, String state, long idle) {
        Properties settings = new Properties();
        settings.putAll(broker);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(
            StreamsConfig.NUM_STREAM_THREADS_CONFIG, Math.min(PARTITIONS, Runtime.getRuntime().availableProcessors()));
        settings.put(StreamsConfig.MAX_TASK_IDLE_MS_CONFIG, idle);
        settings.put(
            StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        return settings;
    }

    private void send(Path epoch, KafkaProducer<Long, byte[]> producer) throws IOException {
        byte[] bytes = new byte[RECORD];
        ByteBuffer record = ByteBuffer.wrap(bytes);
        try (DataInputStream file = new DataInputStream(new BufferedInputStream(Files.newInputStream(epoch), 1 << 20))) {
            for (long left = Files.size(epoch) / RECORD; left > 0; left--) {
                file.readFully(bytes);
                record.rewind();
                long time = record.getLong();
                long key = record.getLong();
                int side = record.get();
                boolean gone = record.get() == 1;
                int value = record.position();
                producer.send(new ProducerRecord<>(
                    side == 0 ? Workload.LEFT : Workload.RIGHT,
                    null,
                    time,
                    key,
                    gone ? null : Arrays.copyOfRange(bytes, value, value + workload.widths[side])));
            }
        }
        producer.flush();
    }

    private void awaitRunning(KafkaStreams streams) throws InterruptedException {
        // Before it runs, its changelog topics need not exist.
        while (streams.state() != KafkaStreams.State.RUNNING) {
            failIfFailed();
            Thread.sleep(10);
        }
    }

    private long lastChange(Admin admin, long before, long start) throws Exception {
        long seen = before;
        long changed = start;
        while (System.nanoTime() - changed < (seen == before ? SILENT : QUIET).toNanos()) {
            failIfFailed();
            long now = written(admin);
            if (now != seen) {
                seen = now;
                changed = System.nanoTime();
            }
            Thread.sleep(10);
        }
        return changed;
    }

    private void failIfFailed() {
        if (failure.get() != null) {
            throw new IllegalStateException("Kafka Streams stopped: " + failure.get(), failure.get());
        }
    }

    private long written(Admin admin) throws Exception {
        List<String> topics = new ArrayList<>(List.of(Workload.OUTPUT));
        if (workload == Workload.ST) {
            // While a table is loaded that no fact has met yet, only its changelog grows.
            topics.add(APPLICATION + "-" + Workload.RIGHT + "-changelog");
        }
        Map<TopicPartition, OffsetSpec> asked = topics.stream()
            .flatMap(topic -> partitions(topic).stream())
            .collect(Collectors.toMap(partition -> partition, partition -> OffsetSpec.latest()));
        return admin.listOffsets(asked).all().get().values().stream().mapToLong(end -> end.offset()).sum();
    }

    private void failIfUnread() throws Exception {
        try (Admin admin = Admin.create(broker)) {
            Map<TopicPartition, OffsetAndMetadata> read =
                admin.listConsumerGroupOffsets(APPLICATION).partitionsToOffsetAndMetadata().get();
            Map<TopicPartition, OffsetSpec> asked = admin.listTopics().names().get().stream()
                .filter(topic -> !topic.equals(Workload.OUTPUT) && !topic.endsWith("-changelog"))
                .flatMap(topic -> partitions(topic).stream())
                .collect(Collectors.toMap(partition -> partition, partition -> OffsetSpec.latest()));
            admin.listOffsets(asked).all().get().forEach((partition, end) -> {
                OffsetAndMetadata upTo = read.get(partition);
                if ((upTo == null ? 0 : upTo.offset()) < end.offset()) {
                    throw new IllegalStateException(
                        "was quiet before " + partition + " was read to its end: make QUIET longer");
                }
            });
        }
    }

    private static List<TopicPartition> partitions(String topic) {
        return IntStream.range(0, PARTITIONS).mapToObj(number -> new TopicPartition(topic, number)).toList();
    }

    private void readAnswer() {
        Map<String, Object> settings = new HashMap<>(broker);
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        Map<Long, Long> table = new HashMap<>();
        List<TopicPartition> partitions = partitions(Workload.OUTPUT);
        try (KafkaConsumer<Long, byte[]> consumer =
            new KafkaConsumer<>(settings, new LongDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<Long, byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    rowsOut++;
                    take(record.key(), record.value(), table);
                }
            }
        }
        finalRows += table.size();
        checksum += table.values().stream().mapToLong(weight -> weight).sum();
        // Sums wrap around at 2^64, so this is the rest modulo 2^63.
        checksum &= Long.MAX_VALUE;
    }

    private void take(long key, byte[] joined, Map<Long, Long> table) {
        if (workload == Workload.FK) {
            if (joined == null) {
                table.remove(key);
            } else {
                table.put(key, workload.weight(joined));
            }
        } else if (Workload.isPair(joined)) {
            finalRows++;
            checksum += workload.weight(joined);
        }
    }

    private static long peakMegabytes() throws IOException {
        Path status = Path.of("/proc/self/status");
        if (!Files.exists(status)) {
            return 0;
        }
        String peak = Files.readAllLines(status).stream().filter(line -> line.startsWith("VmHWM:")).findFirst().get();
        return Long.parseLong(peak.replaceAll("\\D", "")) / 1024;
    }
}
