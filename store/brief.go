package store

// Clip shortens a text that may come from anywhere to [MaxMessage] bytes, without
// splitting a rune; what was cut off shows as "…", what is not UTF-8 as U+FFFD.
func Clip(text string) string { return cut(text) }

// Brief is err with its text clipped, for log lines and pages: the texts of
// errors come from external systems too, and have no bound of their own.
// [errors.Is] and [errors.As] find what they find in err. The text is made when
// it is asked for. Brief of nil is nil.
func Brief(err error) error {
	if err == nil {
		return nil
	}
	return briefError{err}
}

type briefError struct{ err error }

func (e briefError) Error() string { return cut(e.err.Error()) }
func (e briefError) Unwrap() error { return e.err }
