package sleep_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tendhq/tend/internal/sleep"
)

func TestSleepEndsWithTheTimeOrTheContext(t *testing.T) {
	for _, c := range []struct{ life, d, took time.Duration }{
		{time.Hour, time.Minute, time.Minute},
		{time.Second, time.Minute, time.Second},
		{time.Hour, 0, 0},
		{time.Hour, -time.Second, 0},
		{0, time.Minute, 0},
		{0, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.life)
			defer cancel()
			began := time.Now()
			alive := sleep.For(ctx, c.d)
			if took := time.Since(began); took != c.took || alive != (c.life > c.d) {
				t.Errorf("For %v in a life of %v: %v after %v, want %v", c.d, c.life, alive, took, c.took)
			}
		})
	}
}

func ExampleFor() {
	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println(sleep.For(ctx, time.Microsecond))
	cancel()
	fmt.Println(sleep.For(ctx, time.Hour))
	// Output:
	// true
	// false
}

func TestBackoffDoublesFromMinToMaxAndBeginsAgain(t *testing.T) {
	b := sleep.Backoff{Min: time.Second, Max: 10 * time.Second}
	for range 2 {
		for n, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
			want *= time.Second
			if d := b.Next(); d < want*3/4 || d > want*5/4+1 {
				t.Errorf("wait %d is %v, want %v and a quarter more or less", n, d, want)
			}
		}
		for range 100 {
			if d := b.Next(); d < b.Max*3/4 || d > b.Max*5/4+1 {
				t.Errorf("a late wait is %v, want about %v", d, b.Max)
			}
		}
		b.Reset()
	}
}

func TestAfterCountsTheFailuresThatWentBefore(t *testing.T) {
	b := sleep.Backoff{Min: time.Second, Max: time.Hour}
	for range 100 {
		for failures, want := range map[int]time.Duration{0: time.Second, 3: 8 * time.Second, 11: 2048 * time.Second, 12: time.Hour, 61: time.Hour, 62: time.Hour, 1 << 30: time.Hour} {
			if d := b.After(failures); d < want*3/4 || d > want*5/4+1 {
				t.Errorf("After(%d) is %v, want %v and a quarter more or less", failures, d, want)
			}
		}
	}
	if d := b.Next(); d > time.Second*5/4+1 {
		t.Errorf("After has changed its Backoff: Next is %v", d)
	}
}

func TestWakeNeverWaitsAndTellsOnce(t *testing.T) {
	signal := make(chan struct{}, 1)
	sleep.Wake(signal)
	sleep.Wake(signal)
	if n := len(signal); n != 1 {
		t.Errorf("%d signals, want 1", n)
	}
}
