package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What only one platform compiles is checked for that platform, in tests too.
func TestErrorsOfAnotherPlatformAreFound(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/m\n\ngo 1.26\n",
		"m.go":             "package m\n\nimport \"syscall\"\n\nvar _ = syscall.Getpid\n",
		"m_linux.go":       "package m\n\nvar shift = uint64(1) << 40\n",
		"m_windows.go":     "package m\n\nvar shift = 1 << 40\n", // overflows an int of 32 bits
		"m_linux_test.go":  "package m\n\nvar _ = shift\n",
		"m_darwin_test.go": "package m\n\nvar _ = missing\n",
		"m_darwin.go":      "package m\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	t.Setenv("GOWORK", "off")
	for platform, want := range map[string]string{
		"linux/amd64": "", "windows/386": "overflows", "darwin/arm64": "undefined: missing",
	} {
		_, errs, err := check(platform, "./...")
		switch {
		case err != nil:
			t.Error(err)
		case want == "" && len(errs) > 0:
			t.Errorf("%s: %v", platform, errs)
		case want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), want)):
			t.Errorf("%s: %v, want one that says %q", platform, errs, want)
		}
	}
	if _, _, err := check("linux", "./..."); err == nil {
		t.Error("half a platform is none")
	}
	if n, errs, err := check("linux/amd64", "./missing"); err == nil && len(errs) == 0 {
		t.Errorf("%d packages of a folder that is not there", n)
	}
}
