//go:build peers

package bench

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// measure times body alone and says what share of one core others burned
// meanwhile. While another process takes a core, a two-core figure is silently
// a one-core figure; report drops such samples. cpu-ns/op is the CPU time of all
// goroutines: other processes hardly change it, but it does not see waiting.
func measure(b *testing.B, body func()) {
	b.Helper()
	b.ReportAllocs()
	runtime.GC() // what the set-up left is not this body's to collect
	untimed = 0
	g := guard()
	b.ResetTimer()
	body()
	b.StopTimer()
	b.ReportMetric(g.foreign(), "foreign-%")
	b.ReportMetric(float64(ownCPU()-g.own-untimed)/float64(b.N), "cpu-ns/op")
}

// untimed is the CPU time that aside took since the measured body began.
var untimed time.Duration

// aside does within a measured body what is not to be measured: neither its time
// nor the CPU time of all goroutines meanwhile counts.
func aside(b *testing.B, do func()) {
	b.Helper()
	b.StopTimer()
	from := ownCPU()
	do()
	untimed += ownCPU() - from
	b.StartTimer()
}

// watch remembers how much CPU the machine and this process had used.
type watch struct {
	at        time.Time
	busy, own time.Duration
}

func guard() watch { return watch{time.Now(), busyCPU(), ownCPU()} }

// foreign is the CPU time that others took since the guard was made, in
// percent of one core. Both clocks tick in hundredths of a second, so it means
// little for a body of less than a tenth.
func (w watch) foreign() float64 {
	others := (busyCPU() - w.busy) - (ownCPU() - w.own)
	return 100 * max(0, others.Seconds()) / time.Since(w.at).Seconds()
}

// busyCPU is the time that the machine's cores were not idle, stolen time
// included. It is 0 where /proc/stat cannot be read: then nothing is foreign.
func busyCPU() time.Duration {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadString('\n')
	fields := strings.Fields(line)
	busy := 0
	for i, field := range fields {
		// cpu user nice system idle iowait irq softirq steal guest guest_nice;
		// the guests are counted in user and nice already.
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.Atoi(field)
		busy += n
	}
	return time.Duration(busy) * 10 * time.Millisecond
}

// heap is the size of what lives, after everything dead was collected.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one frees what finalizers and pools kept
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
