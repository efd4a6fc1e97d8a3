package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v4"
)

// RoleSpec is a role as declared.
type RoleSpec struct {
	Login       bool `yaml:"login"`
	Connections int  `yaml:"connections"` // at once, at most; 0: any number
}

// DatabaseSpec is a database as declared.
type DatabaseSpec struct {
	Owner       string `yaml:"owner"`
	Connections int    `yaml:"connections"` // at once, at most; 0: any number
}

// declared is the file.
type declared struct {
	Roles     map[string]RoleSpec     `yaml:"roles"`
	Databases map[string]DatabaseSpec `yaml:"databases"`
}

// maxConnections is what no server can reach; numbers above are ours, see mark.
const maxConnections = 1<<30 - 1

// maxIdentifier: the server cuts longer names, and two would become one.
const maxIdentifier = 63

func readDeclared(path string) (declared, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return declared{}, fmt.Errorf("what is declared cannot be read: %w", err)
	}
	d, err := parseDeclared(data)
	if err != nil {
		return d, fmt.Errorf("%s is broken: %w", path, err)
	}
	return d, nil
}

// parseDeclared reads the file's content. What it does not hold is dropped from the server, so
// that nothing of it may go unread, and a file that is empty says nothing.
func parseDeclared(data []byte) (d declared, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return d, err
	}
	if d.Roles == nil && d.Databases == nil {
		return d, errors.New("it declares neither roles nor databases; if there should be none, write roles: {}")
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return d, errors.New("it holds more than one document; expected one")
	}
	return d, d.check()
}

// check finds everything that is wrong, to be mended in one go.
func (d declared) check() error {
	var errs []error
	name := func(what, name string, connections int) {
		if len(name) < 1 || len(name) > maxIdentifier {
			errs = append(errs, fmt.Errorf("%s %q: the name has %d bytes; expected 1 to %d", what, name, len(name), maxIdentifier))
		}
		if connections < 0 || connections > maxConnections {
			errs = append(errs, fmt.Errorf("%s %q: connections is %d; expected 0 to %d", what, name, connections, maxConnections))
		}
	}
	for n, r := range d.Roles {
		name("role", n, r.Connections)
	}
	for n, db := range d.Databases {
		name("database", n, db.Connections)
		if db.Owner == "" {
			errs = append(errs, fmt.Errorf("database %q: owner is missing", n))
		}
	}
	return errors.Join(errs...)
}
