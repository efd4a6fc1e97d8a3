package main

import (
	"fmt"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tendhq/tend/metrics/tracing"
)

func main() {
	tracer, err := tracing.New(noop.NewTracerProvider(), nil)
	fmt.Println("a tracer:", tracer != nil && err == nil)
}
