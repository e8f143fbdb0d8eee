package streams

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPomHasTheVersion(t *testing.T) {
	want := "<artifactId>kafka-streams</artifactId>\n      <version>" + Version + "</version>"
	if !strings.Contains(string(POM), want) {
		t.Errorf("pom.xml does not have version %s of kafka-streams", Version)
	}
}

// TestCommand: what was chosen is in the properties after the defaults, where the later line
// counts.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	a := Application{
		Class: "Program", ID: "app", Brokers: []string{"a:1", "b:2"}, Dir: dir, Heap: "64m",
		Tuning: Tuning{Threads: 3, Properties: []string{"producer.linger.ms=5"}}, Own: []string{"bench.in=topic"},
	}
	i := Installation{Java: "/java", ClassPath: "classes:*"}
	cmd, err := i.Command(t.Context(), a, "read")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "streams.properties")
	if got, want := strings.Join(cmd.Args[1:2], " ")+"|"+strings.Join(cmd.Args[len(cmd.Args)-5:], " "),
		"-Xmx64m|-cp classes:* Program "+file+" read"; got != want {
		t.Errorf("the arguments are %s, want %s", got, want)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "application.id=app\nbootstrap.servers=a:1,b:2\nprocessing.guarantee=exactly_once_v2\nstate.dir=" +
		filepath.ToSlash(filepath.Join(dir, "state")) + "\nnum.stream.threads=3\nproducer.linger.ms=5\nbench.in=topic\n"
	if string(got) != want {
		t.Errorf("the properties are\n%s, want\n%s", got, want)
	}
	a.Heap, a.Threads, a.Properties, a.Own = "", 0, nil, nil
	if cmd, err = i.Command(t.Context(), a); err != nil || strings.Contains(strings.Join(cmd.Args, " "), "-Xmx") {
		t.Errorf("at the defaults the arguments are %v, %v", cmd.Args, err)
	}
	if got, err = os.ReadFile(file); err != nil || strings.Contains(string(got), "threads") {
		t.Errorf("at the defaults the properties are\n%s, %v", got, err)
	}
}

// TestSearch: the fastest setting, and with it the smallest heap before the first that costs too
// much.
func TestSearch(t *testing.T) {
	broken := errors.New("broken in /some/where/state")
	rates := map[string]float64{"2g": 1000, "1g": 980, "512m": 960, "256m": 950, "128m": 1000}
	failures, tried := 0, 0
	s := Search{
		Heaps: []string{"2g", "1g", "512m", "256m", "128m"}, Runs: 1, HeapRuns: 3, Dir: "/some/where", Failed: func(error) { failures++ },
		Tunings: []Tuning{{Name: "slow", Threads: 1}, {Name: "fast", Threads: 2}, {Name: "broken", Threads: 4}},
		Run: func(_ context.Context, tuning Tuning, heap string) (float64, error) {
			switch tuning.Name {
			case "broken":
				return 0, broken
			case "slow":
				return rates[heap] / 2, nil
			}
			if tried++; tried == 1 {
				return 2 * rates[heap], nil // a lucky run wins, and is not what the heaps are compared with
			}
			return rates[heap], nil
		},
	}
	c, err := s.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c.Tuning.Name != "fast" || c.Heap != "2g" || c.SmallHeap != "512m" || len(c.Heaps) != 4 || len(c.Heaps[0].Rates) != 3 || len(c.Tunings[1].Rates) != 1 {
		t.Errorf("chosen are %+v", c)
	}
	if c.Tunings[2].Failed != "broken in ./state" || failures != 1 || !strings.Contains(c.Table(), "| broken | 2g | 0 | did not get through |") {
		t.Errorf("of what failed there is %+v, told %d times\n%s", c.Tunings[2], failures, c.Table())
	}
	s.Tunings = s.Tunings[2:]
	if _, err := s.Do(t.Context()); err == nil {
		t.Error("no setting got through, and the search went on")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Do(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped, the search ends with %v", err)
	}
}
