import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;

/**
 * Stores of Kafka Streams that are restored from changelogs which are there already, and printed once they are: a line for each entry, with
 * tabs between the name of the store, the key, the times and the value. Where Kafka Streams cannot read one, the line says why.
 *
 * <p>Arguments: a file with the properties of Streams, a topic to read, the keys with commas between them, and the stores, each as its kind,
 * its name and its retention in milliseconds with colons between them.
 */
public final class StreamsRead {
    private static final Serde<String> TEXT = Serdes.String();

    private final KafkaStreams streams;
    private final String[] keys;
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private StreamsRead(KafkaStreams streams, String[] keys) {
        this.streams = streams;
        this.keys = keys;
    }

    private static StoreBuilder<?> builder(String kind, String name, Duration retention) {
        switch (kind) {
            case "keyvalue":
                return Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), TEXT, TEXT);
            case "timestamped":
                return Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore(name), TEXT, TEXT);
            case "window":
                return Stores.timestampedWindowStoreBuilder(
                    Stores.persistentTimestampedWindowStore(name, retention, Duration.ofMinutes(1), false), TEXT, TEXT);
            case "series":
                return Stores.windowStoreBuilder(Stores.persistentWindowStore(name, retention, Duration.ofMinutes(1), true), TEXT, TEXT);
            case "session":
                return Stores.sessionStoreBuilder(Stores.persistentSessionStore(name, retention), TEXT, TEXT);
            case "versioned":
                return Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore(name, retention), TEXT, TEXT);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private <S> S store(String name, QueryableStoreType<S> type) {
        return streams.store(StoreQueryParameters.fromNameAndType(name, type));
    }

    private void line(String store, Object key, Object times, Object value) {
        out.println(store + "\t" + key + "\t" + times + "\t" + value);
    }

    private void print(String kind, String name) {
        switch (kind) {
            case "keyvalue":
                try (KeyValueIterator<String, String> all = store(name, QueryableStoreTypes.<String, String>keyValueStore()).all()) {
                    all.forEachRemaining(e -> line(name, e.key, "", e.value));
                }
                return;
            case "timestamped":
                try (KeyValueIterator<String, ValueAndTimestamp<String>> all =
                        store(name, QueryableStoreTypes.<String, String>timestampedKeyValueStore()).all()) {
                    all.forEachRemaining(e -> line(name, e.key, e.value.timestamp(), e.value.value()));
                }
                return;
            case "window":
                try (KeyValueIterator<Windowed<String>, ValueAndTimestamp<String>> all =
                        store(name, QueryableStoreTypes.<String, String>timestampedWindowStore()).all()) {
                    all.forEachRemaining(e ->
                        line(name, e.key.key(), e.key.window().start() + " " + e.value.timestamp(), e.value.value()));
                }
                return;
            case "series":
                try (KeyValueIterator<Windowed<String>, String> all = store(name, QueryableStoreTypes.<String, String>windowStore()).all()) {
                    all.forEachRemaining(e -> line(name, e.key.key(), e.key.window().start(), e.value));
                }
                return;
            case "session":
                for (String key : keys) {
                    try (KeyValueIterator<Windowed<String>, String> all =
                            store(name, QueryableStoreTypes.<String, String>sessionStore()).fetch(key)) {
                        while (all.hasNext()) {
                            KeyValue<Windowed<String>, String> e = all.next();
                            line(name, e.key.key(), e.key.window().start() + " " + e.key.window().end(), e.value);
                        }
                    }
                }
                return;
            case "versioned":
                for (String key : keys) {
                    printVersions(name, key);
                }
                return;
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private void printVersions(String name, String key) {
        MultiVersionedKeyQuery<String, String> query = MultiVersionedKeyQuery.withKey(key);
        query = query.fromTime(Instant.EPOCH).withAscendingTimestamps();
        for (QueryResult<VersionedRecordIterator<String>> result
                : streams.query(StateQueryRequest.inStore(name).withQuery(query)).getPartitionResults().values()) {
            if (result.isFailure()) {
                throw new IllegalStateException(result.getFailureMessage());
            }
            try (VersionedRecordIterator<String> versions = result.getResult()) {
                while (versions.hasNext()) {
                    VersionedRecord<String> v = versions.next();
                    String to = v.validTo().isPresent() ? v.validTo().get().toString() : "now";
                    line(name, key, v.timestamp() + " " + to, v.value());
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (InputStream in = new FileInputStream(args[0])) {
            properties.load(in);
        }
        StreamsBuilder builder = new StreamsBuilder();
        String[] names = new String[args.length - 3];
        for (int i = 0; i < names.length; i++) {
            String[] store = args[i + 3].split(":");
            names[i] = store[1];
            builder.addStateStore(builder(store[0], store[1], Duration.ofMillis(Long.parseLong(store[2]))));
        }
        builder.stream(args[1], Consumed.with(TEXT, TEXT)).process(() -> new Processor<String, String, Void, Void>() {
            @Override
            public void process(Record<String, String> record) { }
        }, names);
        CountDownLatch running = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            } else if (now == KafkaStreams.State.ERROR) {
                System.err.println("Streams has failed");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        running.await();
        StreamsRead read = new StreamsRead(streams, args[2].split(","));
        for (int i = 0; i < names.length; i++) {
            try {
                read.print(args[i + 3].split(":")[0], names[i]);
            } catch (RuntimeException e) { // of this store alone
                read.line(names[i], "unreadable", "", e.getMessage());
            }
        }
        read.out.flush();
        streams.close(Duration.ofSeconds(30));
    }
}
