package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tendhq/tend/store/postgres"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := postgres.Open(ctx, "postgres://nobody@127.0.0.1:1/none", nil)
	fmt.Println("without a server:", err)
}
