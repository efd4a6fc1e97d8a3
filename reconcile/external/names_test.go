package external_test

import "github.com/tendhq/tend/reconcile/lifecycle"

func finalizerName() (string, error) { return lifecycle.FinalizerName("Disk", "external") }
