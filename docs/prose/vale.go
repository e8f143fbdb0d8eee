package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Later versions of Vale need a module that the Go module proxy does not have.
const (
	valeModule  = "github.com/vale-cli/vale/v3/cmd/vale"
	valeVersion = "v3.22.0"
)

// install returns the path of Vale, in the user's cache. It compiles Vale if it is not there.
func install() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "onceward")
	path := filepath.Join(dir, "vale-"+valeVersion)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	bin, err := os.MkdirTemp(dir, "vale-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(bin) }()
	cmd := exec.Command("go", "install", valeModule+"@"+valeVersion)
	cmd.Dir = bin
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=1", "CGO_CFLAGS=-O1 -w")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install Vale, which needs a C compiler and the Go module proxy: %w\n%s", err, out)
	}
	// Another process may install the same version at this moment: the last one wins.
	return path, os.Rename(filepath.Join(bin, "vale"), path)
}
