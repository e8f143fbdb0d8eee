package cli

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
)

// configFlag names a file with settings.
type configFlag string

// BeforeResolve is called by kong when the flag or its environment variable is given.
func (configFlag) BeforeResolve(ctx *kong.Context, path *kong.Path) error {
	name, _ := ctx.FlagValue(path.Flag).(configFlag)
	if name == "" {
		return nil
	}
	src, err := yamldoc.ReadFile(string(name))
	if err != nil {
		return usage("reading the configuration: %w; check the path given with --config", err)
	}
	file := yamldoc.Parse(string(name), src)
	settings := file.Root().Mapping(settingsOf(ctx.Model.Node)...)
	if err := file.Err(); err != nil {
		return &usageError{err}
	}
	ctx.AddResolver(&configResolver{file: file, settings: settings})
	return nil
}

// settingsOf returns the names of the flags that a configuration file may set: those with an
// environment variable, except the one that names the file.
func settingsOf(node *kong.Node) []string {
	var names []string
	for _, f := range node.Flags {
		if len(f.Envs) > 0 && f.Target.Type() != reflect.TypeFor[configFlag]() {
			names = append(names, f.Name)
		}
	}
	for _, child := range node.Children {
		names = append(names, settingsOf(child)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// configResolver gives kong the settings of a file.
type configResolver struct {
	file     *yamldoc.File
	settings yamldoc.Mapping
}

// Validate is nothing: the keys are checked when the file is read.
func (*configResolver) Validate(*kong.Application) error { return nil }

// Resolve returns the setting for a flag that is not given, nil if there is none. kong asks a
// resolver although the environment has a value, so this looks there itself.
func (c *configResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	setting := c.settings.Optional(flag.Name)
	if !setting.Present() {
		return nil, nil
	}
	words := []yamldoc.Value{setting}
	if setting.IsList() && flag.IsSlice() {
		words = setting.List()
	}
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i] = word.Word()
	}
	value := strings.Join(texts, ",")
	if value != "" {
		// kong would say what is wrong without the place.
		probe := reflect.New(flag.Target.Type()).Elem()
		if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), probe); err != nil {
			setting.Mistake("%s", strings.TrimPrefix(err.Error(), flag.ShortSummary()+": "))
		}
	}
	if err := c.file.Err(); err != nil {
		return nil, &usageError{err}
	}
	return value, nil
}
