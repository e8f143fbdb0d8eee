import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;

/** The life of a measured process: it is started, reports, and ends in order when its input does. */
final class Child {
    private Child() { }

    static Properties properties(String file) throws IOException {
        Properties properties = new Properties();
        try (InputStream in = new FileInputStream(file)) {
            properties.load(in);
        }
        return properties;
    }

    /**
     * Starts the application and returns once it runs. An application that fails, then or later, ends the process, and so does a main
     * thread that fails: else the threads of Streams would keep it. Until it runs nobody reads the input, so it is looked whether whoever
     * has started the process is still there.
     */
    static void start(KafkaStreams streams) throws InterruptedException {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        Optional<ProcessHandle> parent = ProcessHandle.current().parent();
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            } else if (now == KafkaStreams.State.ERROR) {
                System.err.println("Streams has failed");
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
        while (!running.await(1, TimeUnit.SECONDS)) {
            if (!ProcessHandle.current().parent().equals(parent)) {
                System.err.println("whoever has started this process is gone");
                Runtime.getRuntime().halt(1);
            }
        }
    }

    /**
     * Leaves the group, so that the next application with its name need not wait for the session to end. Threads that do not end in
     * time would keep the process: they fail it.
     */
    static void close(KafkaStreams streams) {
        boolean closed = streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP)
            .withTimeout(Duration.ofSeconds(30)));
        if (!closed) {
            System.err.println("Streams does not close");
            Runtime.getRuntime().halt(1);
        }
    }
}
