// Command platforms type-checks packages and their tests as another platform compiles them,
// with all they import, from source. It reports what would not compile there. Compiling the
// same for a platform that nothing has been compiled for takes ten times as long.
//
//	go run ./bench/platforms darwin/arm64 ./... ./cmd/tend/...
package main

import (
	"fmt"
	"log"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("platforms: ")
	if len(os.Args) < 3 {
		log.Fatal("usage: platforms OS/ARCH PACKAGE...")
	}
	n, errs, err := check(os.Args[1], os.Args[2:]...)
	if err != nil {
		log.Fatal(err)
	}
	for _, err := range errs {
		fmt.Println(err)
	}
	if len(errs) > 0 {
		log.Fatalf("%s: %d errors", os.Args[1], len(errs))
	}
	fmt.Printf("%s: %d packages\n", os.Args[1], n)
}

// check type-checks what the patterns match for a platform without cgo. It returns how many
// packages they match, test binaries counted too, and what does not compile in any package.
func check(platform string, patterns ...string) (n int, errs []packages.Error, err error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return 0, nil, fmt.Errorf("%q is no platform such as linux/amd64", platform)
	}
	all, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax,
		Tests: true,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		return 0, nil, err
	}
	packages.Visit(all, nil, func(p *packages.Package) { errs = append(errs, p.Errors...) })
	if len(all) == 0 && len(errs) == 0 {
		return 0, nil, fmt.Errorf("no packages match %v", patterns)
	}
	return len(all), errs, nil
}
