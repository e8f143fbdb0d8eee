package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The id of the Kafka cluster in the state directory, and its replacement that was not finished.
const (
	clusterFile     = "cluster"
	clusterTempFile = "cluster.tmp"
)

// clusterBytesMax is far beyond any id of a cluster.
const clusterBytesMax = 4096

// CheckCluster returns an error that wraps ErrForeign if a state directory of one cluster is used
// with another. An id that is not known is empty, and then nothing is compared.
func CheckCluster(stored, cluster string) error {
	if stored == "" || cluster == "" || stored == cluster {
		return nil
	}
	return fmt.Errorf("%w: its state was written on the Kafka cluster %q, and the brokers are those of %q: name brokers of that cluster, "+
		"or another state directory", ErrForeign, stored, cluster)
}

// readCluster returns the id of the cluster, empty if none is stored.
func readCluster(root *os.Root) (string, error) {
	data, err := readFile(root, clusterFile, clusterBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", clusterFile, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// keepCluster stores the id of the cluster in a directory that has none.
func (d *Directory) keepCluster(cluster string) error {
	stored, err := readCluster(d.root)
	if err != nil || stored != "" || cluster == "" {
		return err
	}
	if err := replaceFile(d.root, clusterTempFile, clusterFile, []byte(cluster+"\n")); err != nil {
		return fmt.Errorf("write %s: %w", clusterFile, err)
	}
	return nil
}
