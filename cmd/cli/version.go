package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

const modulePath = "github.com/onceward/onceward"

// versionCommand shows what this program was built from.
type versionCommand struct{ outputFlag }

func (c *versionCommand) Run(p *process) error {
	v := versionOf(debug.ReadBuildInfo())
	if c.Output == "json" {
		return writeJSON(p.out, v)
	}
	_, err := fmt.Fprintln(p.out, v)
	return err
}

// version is the JSON form. Its fields are for programs and stay.
type version struct {
	// Version is that of the module onceward: a tag, a pseudo-version, or (devel).
	Version string `json:"version"`
	// Revision is the commit that the program was built from, if that is known, and Modified says
	// that there were changes on top of it. In a program that uses onceward as a library it is the
	// program's own.
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

const unknownVersion = "(unknown)"

func versionOf(info *debug.BuildInfo, ok bool) version {
	v := version{Version: unknownVersion, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if !ok {
		return v
	}
	if info.Main.Path == modulePath && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == modulePath {
			v.Version = dep.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String returns the version in one line.
func (v version) String() string {
	s := "onceward " + v.Version
	if v.Revision != "" {
		s += ", revision " + v.Revision
		if v.Modified {
			s += " with changes"
		}
	}
	return s + fmt.Sprintf(", %s, %s/%s", v.Go, v.OS, v.Arch)
}
