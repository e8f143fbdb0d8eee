package capture

import (
	"context"
	"fmt"
	"os"

	"github.com/onceward/onceward/cmd/cli"
)

// Command runs the application with the commands of onceward and returns the exit code. The
// arguments are those of the process, without its name. The settings are in the environment.
func Command(args []string) (exitCode int) {
	settings, err := FromEnvironment()
	if err != nil {
		return refused(err)
	}
	t, err := settings.Topology()
	if err != nil {
		return refused(err)
	}
	return cli.Main(context.Background(), args, os.Stdin, os.Stdout, os.Stderr, t)
}

func refused(err error) (exitCode int) {
	fmt.Fprintln(os.Stderr, "capture:", err)
	return 2
}
