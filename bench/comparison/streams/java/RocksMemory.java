import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/**
 * Memory for RocksDB as people who tune it give it: one block cache for all stores, of bench.rocksdb.cache bytes, instead of 50 MB
 * for each, and write buffers of bench.rocksdb.buffer bytes instead of 16 MB, of which there are fewer and larger flushes.
 */
public final class RocksMemory implements RocksDBConfigSetter {
    private static Cache shared;

    private static synchronized Cache shared(long bytes) {
        if (shared == null) {
            RocksDB.loadLibrary();
            shared = new LRUCache(bytes);
        }
        return shared;
    }

    @Override
    public void setConfig(String store, Options options, Map<String, Object> configs) {
        BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
        table.setBlockCache(shared(Long.parseLong((String) configs.get("bench.rocksdb.cache"))));
        options.setTableFormatConfig(table);
        options.setWriteBufferSize(Long.parseLong((String) configs.get("bench.rocksdb.buffer")));
    }

    /** The cache is everybody's, and lives as long as the process. */
    @Override
    public void close(String store, Options options) { }
}
