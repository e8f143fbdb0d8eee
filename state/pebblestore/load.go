package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/onceward/onceward/state"
)

// loadDirectory has the table that a Load is writing. It is inside the database's directory, so
// that linking the table into the database is no copy, and it is removed at open: what is in it
// belongs to no database.
const loadDirectory = "load"

// loadCheckEvery is the number of writes between two looks at whether the work of a Load is still
// of use.
const loadCheckEvery = 1024

const (
	// loadBytesMin is about what a table costs in memory while it is built: some blocks on their
	// way to the disk.
	loadBytesMin = 512 << 10
	// loadBytesEach is for its index and filter, which are kept to the end.
	loadBytesEach = 8
)

// removeLoadDirectory removes what a crash left of a Load.
func removeLoadDirectory(path string, o Options) error {
	return o.FS.RemoveAll(o.FS.PathJoin(path, loadDirectory))
}

// Load implements state.Database. It writes a sorted table beside the database, and a small one
// with the positions, and hands both to Pebble, which takes them in as they are, in one step: no
// memtable, no second copy, no rewrite by a flush.
//
// The order of what is durable. One of the tables contains the key of the positions, and so does
// every batch: where something applied is still in memory only, Pebble sees the overlap, and puts
// both behind it into the queue of what is to be flushed. A crash then leaves neither, the first,
// or both; never a load alone. Where everything applied is in tables, the load is in the database,
// durably, when Load returns.
//
// The positions have a table of their own because every load has that key: in the table of the
// writes it would make each overlap with all before it, so that none could go where it belongs at
// once. Restores of disjoint stores spent a third of their processor time on compactions for it.
func (d *database) Load(base, next state.Positions, store state.StoreID, sorted iter.Seq[state.Write]) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if err := d.admit("load", base, next); err != nil {
		return err
	}
	d.loads++ // a name is used once: the last file may still be there, and part of the database under another
	dir := d.fs.PathJoin(d.path, loadDirectory)
	if err := d.fs.MkdirAll(dir, 0o700); err != nil {
		return d.fault.newError("load", err)
	}
	table := d.fs.PathJoin(dir, strconv.Itoa(d.loads)+".sst")
	position := d.fs.PathJoin(dir, strconv.Itoa(d.loads)+"-positions.sst")
	err := d.writeTable(table, func(w *sstable.Writer) error { return d.fillTable(w, store, sorted) })
	if err != nil {
		return err
	}
	err = d.writeTable(position, func(w *sstable.Writer) error {
		if err := errors.Join(setNext(w.Set), w.Set(positionsKey, next.Append(nil))); err != nil {
			return d.fault.newError("load", err)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, d.removeTable(table))
	}
	d.committed.down.Lock()
	defer d.committed.down.Unlock()
	err = d.drainLocked("load")
	if err == nil {
		d.rows.begin()
		err = d.ingest("load", position, table)
		d.rows.clear() // those of the store would do
		d.rows.end()
	}
	if err != nil {
		// Pebble has linked the tables or not; these names of them are of no use.
		return errors.Join(err, d.removeTable(table), d.removeTable(position))
	}
	next = next.Clone()
	d.positions.Store(&next)
	// It is in no memory, but its place behind what was applied before may be: so there is
	// something to flush. And the next one waits until the flusher has looked at L0.
	d.flusher.crowded.Store(true)
	d.flusher.wrote(1)
	token(d.flusher.work)
	return nil
}

// writeTable writes a new table and makes it durable. After an error there is no table, and the
// database has seen nothing.
//
// It writes past the fault: a table that is not part of the database may fail without harm to it,
// and may not wait for the close as Pebble's own files do.
func (d *database) writeTable(path string, fill func(*sstable.Writer) error) error {
	file, err := d.fs.Create(path, "onceward-load")
	if err != nil {
		return d.fault.newError("load", err)
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(file), d.tables)
	err = fill(w)
	// Close makes the table durable. The writer has goroutines and the file: it is closed in any
	// case.
	if closeErr := w.Close(); err == nil && closeErr != nil {
		err = d.fault.newError("load", closeErr)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, d.removeTable(path))
}

// fillTable adds the writes, which have to be in the order of their keys.
func (d *database) fillTable(w *sstable.Writer, store state.StoreID, sorted iter.Seq[state.Write]) error {
	memory := reservation{shared: d.flusher.shared}
	if memory.shared != nil {
		memory.use = &memory.shared.loads
	}
	defer memory.end()
	key := appendDataKey(nil, store, nil)
	var last []byte
	filters := filterWriter{habits: &d.habits}
	n := 0
	for write := range sorted {
		if write.Store != store {
			return fmt.Errorf("pebblestore: load store %08x into %s: write %d is of store %08x; nothing was changed",
				uint32(store), d.path, n, uint32(write.Store))
		}
		if n > 0 && bytes.Compare(write.Key, last) <= 0 {
			return fmt.Errorf("pebblestore: load store %08x into %s: the key of write %d is not above the one before; nothing was changed",
				uint32(store), d.path, n)
		}
		key = append(key[:dataPrefixSize], write.Key...)
		last = key[dataPrefixSize:]
		filters.add(write, key)
		var err error
		if write.Delete {
			err = w.Delete(key)
		} else {
			err = w.Set(key, write.Value)
		}
		if err != nil {
			return d.fault.newError("load", err)
		}
		if n++; n%loadCheckEvery == 0 {
			memory.grow(loadBytesMin + int64(n)*loadBytesEach)
			if err := d.goOn("load"); err != nil {
				return err
			}
		}
	}
	filters.flush()
	return d.goOn("load")
}

// goOn returns why a long operation should end: a fault, or a Close that waits for it.
func (d *database) goOn(op string) error {
	select {
	case <-d.flusher.stop:
		return errClosed(op, d.path)
	default:
		return d.fault.check(op)
	}
}

// ingest hands tables to Pebble. After an error that leaves the database usable none of them is in
// it.
//
// It runs on a goroutine of its own. A flush or compaction that failed may hold what Pebble's
// Ingest needs, and not give it back before Close lets it go (type fault): whoever waits for the
// ingest has to hear of the fault instead. The goroutine holds life, so that Close, which ends it,
// also waits for it.
func (d *database) ingest(op string, tables ...string) error {
	d.life.RLock()
	if err := d.usableLocked(op); err != nil {
		d.life.RUnlock()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer d.life.RUnlock()
		d.seekers.begin()
		err := d.db.Ingest(context.Background(), tables)
		d.seekers.end()
		done <- err
	}()
	select {
	case err := <-done:
		return d.fault.read(op, err)
	case <-d.fault.failed:
		return d.fault.check(op)
	}
}

// removeTable removes a table that did not become part of the database. That it was never made, or
// that Pebble removed it, is as good.
func (d *database) removeTable(path string) error {
	if err := d.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.fault.newError("load", err)
	}
	return nil
}

// Remove implements state.Database. It is one range tombstone, whatever is in the range.
func (d *database) Remove(base, next state.Positions, store state.StoreID, r state.Range) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	if err := d.admit("remove", base, next); err != nil {
		return err
	}
	b := d.db.NewBatch()
	defer releaseBatch(b)
	// Pebble takes no empty range.
	if lower, upper := bounds(store, r); bytes.Compare(lower, upper) < 0 {
		if err := b.DeleteRange(lower, upper, nil); err != nil {
			return d.fault.newError("remove", err)
		}
	}
	next = next.Clone()
	return d.commitDirect("remove", b, &next)
}
