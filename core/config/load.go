package config

import (
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// PathEnv names the configuration file where --config does not.
const PathEnv = "REPLICANT_CONFIG"

// fileMax bounds a configuration file, in bytes.
const fileMax = 1 << 20

// Origin says where a value comes from.
type Origin struct {
	// Layer is default, file, env or flag.
	Layer string `json:"layer"`
	// Name is the file with its line, the variable or the flag; empty for a default.
	Name string `json:"name,omitempty"`
	line int
	col  int
}

// Sources says where to read from. The zero value reads the defaults alone.
type Sources struct {
	// Path of the file; empty for none.
	Path string
	// Environ is os.Environ in a program; nil reads no environment.
	Environ func() []string
	// Flags were made by AddFlags; nil for none.
	Flags *pflag.FlagSet
}

// Loaded is a configuration with the origin of each of its values.
type Loaded struct {
	Config
	origins map[string]Origin
	// Notes are remarks that are no faults, such as a variable that is nearly a key's.
	Notes []string
}

// Origin returns where the value of a key came from.
func (l *Loaded) Origin(path string) Origin { return l.origins[path] }

// Load reads all layers and validates the result. required are keys that must have a
// value. The error is a *core.Halt (config_invalid) with every fault, see Faults; what
// could be read is returned with it.
func Load(from Sources, required ...string) (*Loaded, error) {
	l := &loader{k: koanf.New("."), out: &Loaded{origins: map[string]Origin{}}}
	l.defaults()
	if from.Path != "" {
		l.file(from.Path)
	}
	if from.Environ != nil {
		l.environ(from.Environ)
	}
	if from.Flags != nil {
		l.flags(from.Flags)
	}
	l.fill()
	if l.out.StreamID == "" && l.out.origins["stream_id"].Layer == layerDefault {
		l.out.StreamID = l.out.Slot
	}
	l.validate(required)
	l.exclusions()
	return l.out, halt(l.faults)
}

const (
	layerDefault = "default"
	layerFile    = "file"
	layerEnv     = "env"
	layerFlag    = "flag"
)

type loader struct {
	k      *koanf.Koanf
	out    *Loaded
	faults []*Fault
	broken map[string]bool
}

// take notes one value of a layer; faults name the key by the way it was given.
func (l *loader) take(key *Key, text string, o Origin) (string, any) {
	value, problem := key.parse(text)
	if problem != "" {
		l.faults = append(l.faults, &Fault{Key: key.Path, Place: o.Name, Text: problem})
		l.spoil(key.Path)
		return "", nil
	}
	l.out.origins[key.Path] = o
	return key.Path, value
}

// spoil keeps validate quiet about a key whose value could not be read.
func (l *loader) spoil(path string) {
	if l.broken == nil {
		l.broken = map[string]bool{}
	}
	l.broken[path] = true
}

func (l *loader) load(p koanf.Provider) {
	if err := l.k.Load(p, nil); err != nil {
		l.faults = append(l.faults, &Fault{Text: "settings could not be merged: " + err.Error()})
	}
}

func (l *loader) defaults() {
	values := map[string]any{}
	for i := range Keys() {
		key := &Keys()[i]
		if key.Default == "" {
			l.out.origins[key.Path] = Origin{Layer: layerDefault}
			continue
		}
		if _, value := l.take(key, key.Default, Origin{Layer: layerDefault}); value != nil {
			values[key.Path] = value
		}
	}
	l.load(confmap.Provider(values, "."))
}

func (l *loader) file(path string) {
	text, err := readBounded(path)
	if err != nil {
		l.faults = append(l.faults, &Fault{Place: path, Text: err.Error()})
		return
	}
	got := readFile(path, text)
	l.faults = append(l.faults, got.faults...)
	for key, at := range got.lines {
		l.out.origins[key] = Origin{Layer: layerFile, Name: path, line: at.Line, col: at.Column}
		if _, ok := got.values[key]; !ok {
			l.spoil(key)
		}
	}
	l.load(confmap.Provider(got.values, "."))
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		if pathErr, ok := err.(*fs.PathError); ok { //nolint:errorlint // os.Stat returns it bare
			err = pathErr.Err
		}
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	case info.Mode().IsRegular() && info.Size() > fileMax:
		return nil, fmt.Errorf("the file is larger than %s", Size(fileMax))
	case info.IsDir():
		return nil, fmt.Errorf("this is a directory, not a file")
	}
	return os.ReadFile(path)
}

func (l *loader) environ(environ func() []string) {
	names := make([]string, 0, len(Keys()))
	byEnv := map[string]*Key{}
	for i := range Keys() {
		names = append(names, Keys()[i].Env)
		byEnv[Keys()[i].Env] = &Keys()[i]
	}
	l.load(env.Provider(".", env.Opt{
		Prefix: "REPLICANT_", EnvironFunc: environ,
		TransformFunc: func(name, text string) (string, any) {
			if key := byEnv[name]; key != nil {
				return l.take(key, text, Origin{Layer: layerEnv, Name: name})
			}
			// A stranger's variable is no fault: Kubernetes makes some from the names of
			// services. A slip of the finger deserves a word.
			if near := Nearest(name, names); len(near) > 0 && distance(name, near[0]) <= 2 && name != PathEnv {
				l.out.Notes = append(l.out.Notes, fmt.Sprintf("%s is set but is no setting; did you mean %s?", name, near[0]))
			}
			return "", nil
		},
	}))
}

func (l *loader) flags(set *pflag.FlagSet) {
	byFlag := map[string]*Key{}
	for i := range Keys() {
		byFlag[Keys()[i].Flag] = &Keys()[i]
	}
	l.load(posflag.ProviderWithFlag(set, ".", nil, func(f *pflag.Flag) (string, any) {
		key := byFlag[f.Name]
		if key == nil || !f.Changed {
			return "", nil
		}
		return l.take(key, f.Value.String(), Origin{Layer: layerFlag, Name: "--" + f.Name})
	}))
}

// fill copies the merged values into the struct.
func (l *loader) fill() {
	for i := range Keys() {
		key := &Keys()[i]
		if value := l.k.Get(key.Path); value != nil {
			key.value(&l.out.Config).Set(reflect.ValueOf(value))
		}
	}
}

// validate adds what is wrong with the values as such, each at the place it came from.
func (l *loader) validate(required []string) {
	err := l.out.Validate(required...)
	for _, fault := range Faults(err) {
		if l.broken[fault.Key] {
			continue
		}
		o := l.out.origins[fault.Key]
		fault.Place, fault.Line, fault.Column = o.Name, o.line, o.col
		l.faults = append(l.faults, fault)
	}
}

// String is how `config show` prints an origin.
func (o Origin) String() string {
	switch {
	case o.line > 0:
		return fmt.Sprintf("%s %s:%d", o.Layer, o.Name, o.line)
	case o.Name != "":
		return strings.TrimSpace(o.Layer + " " + o.Name)
	}
	return o.Layer
}
