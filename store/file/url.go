package file

import (
	"context"
	"fmt"
	"strings"

	"github.com/tendhq/tend/store"
)

func init() { store.Register("file", openURL) }

func openURL(_ context.Context, url string) (store.Backend, error) {
	path := strings.TrimPrefix(url, "file:")
	if rest, absolute := strings.CutPrefix(path, "///"); absolute {
		path = "/" + rest // file:///var/lib/x, as other programs write it
	}
	if path == "" || path == url || strings.HasPrefix(path, "//") {
		return nil, fmt.Errorf("%w: the URL of a store in a file is file:PATH", store.ErrInvalid)
	}
	return Open(path)
}
