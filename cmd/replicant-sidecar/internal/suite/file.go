package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// FileName is the settings file that is looked for beside the sink.
const FileName = "conformance.yaml"

// File is what a sink's author writes once, so that a run needs nothing but the command.
// {here} is the directory of the file, {data} a new directory for each run.
type File struct {
	// Env is for the sink: where it keeps its data, say.
	Env map[string]string `yaml:"env"`
	// Probe, ProbeAddress or DSN with Tables read the store.
	Probe        []string `yaml:"probe"`
	ProbeAddress string   `yaml:"probe_address"`
	DSN          string   `yaml:"dsn"`
	Tables       string   `yaml:"tables"`
	Hidden       []string `yaml:"hidden"`
	// Proxy is "listen=upstream".
	Proxy string `yaml:"store_proxy"`
	// Expect are capabilities that must be advertised.
	Expect []string `yaml:"expect"`
	// Known is the path of a list of announced failures.
	Known string `yaml:"known_failing"`
}

// foldersAbove is how far above a sink its settings are looked for: build folders lie as
// deep as target/release.
const foldersAbove = 2

// Find gives the settings file for a command: beside one of the files that it names, in
// one of the two folders above, or where we are. "" if there is none. The program itself
// comes last: before a script it is an interpreter, which may lie in another sink's folder.
func Find(command []string) string {
	var folders []string
	words := command
	if len(command) > 0 {
		words = append(command[1:len(command):len(command)], command[0])
	}
	for _, word := range words {
		if info, err := os.Stat(word); err != nil || !info.Mode().IsRegular() {
			continue
		}
		home, err := filepath.Abs(filepath.Dir(word))
		for i := 0; err == nil && i <= foldersAbove; i++ {
			folders = append(folders, home)
			home = filepath.Dir(home)
		}
	}
	for _, folder := range append(folders, ".") {
		path := filepath.Join(folder, FileName)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// ReadFile reads a settings file. Keys that it does not know are errors.
func ReadFile(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", path)
	}
	if err != nil {
		return nil, err
	}
	here, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var f File
	if err := yaml.UnmarshalWithOptions(text, &f, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	put := func(text *string) { *text = strings.ReplaceAll(*text, "{here}", here) }
	for name, value := range f.Env {
		put(&value)
		f.Env[name] = value
	}
	for i := range f.Probe {
		put(&f.Probe[i])
	}
	for _, text := range []*string{&f.DSN, &f.Known, &f.ProbeAddress} {
		put(text)
	}
	return &f, nil
}

// Under fills what the flags left open.
func (f *File) Under(s *Settings) {
	var env []string
	for name, value := range f.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	s.Env = append(env, s.Env...) // a later one wins
	if len(s.Probe) == 0 && s.ProbeAddress == "" && s.DSN == "" {
		s.Probe, s.ProbeAddress, s.DSN = f.Probe, f.ProbeAddress, f.DSN
	}
	if s.Tables == "" {
		s.Tables = f.Tables
	}
	s.Hidden = append(s.Hidden, f.Hidden...)
	if s.Proxy == "" {
		s.Proxy = f.Proxy
	}
}
