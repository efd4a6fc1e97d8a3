package pgserver

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestMachineWithoutPostgresIsToldWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findBinaries(filepath.Join(t.TempDir(), "*"))
	if !errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), "-dsn") {
		t.Errorf("error %v", err)
	}
}
