package queue

import (
	"fmt"
	"reflect"
)

// checkKey refuses key types whose values can look alike and be different.
func checkKey[K comparable]() error {
	t := reflect.TypeFor[K]()
	if why := unfit(t); why != "" {
		return fmt.Errorf("key type %v holds %s: keys are compared by value, so use strings and integers, or structs of them", t, why)
	}
	return nil
}

func unfit(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer:
		return "a pointer"
	case reflect.Chan:
		return "a channel"
	case reflect.Interface:
		return "an interface"
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return "a float"
	case reflect.Array:
		return unfit(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if why := unfit(f.Type); why != "" {
				return why + " in " + f.Name
			}
		}
	}
	return ""
}
