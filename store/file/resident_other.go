//go:build !linux

package file

import bolt "go.etcd.io/bbolt"

func dropPages(*bolt.DB) {}
