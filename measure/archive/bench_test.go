// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ndt7Record returns a record of about 37 kB with all members of ndt7's schema.
func ndt7Record(random *rand.Rand, i int) []byte {
	var fill func(fields []field) map[string]any
	fill = func(fields []field) map[string]any {
		object := map[string]any{}
		for _, f := range fields {
			var v any
			switch f.Type {
			case "RECORD":
				v = fill(f.Fields)
			case "INTEGER":
				v = random.Int64N(1 << (1 + random.Int64N(40)))
			case "FLOAT":
				v = random.Float64()
			case "TIMESTAMP":
				v = noon.Add(time.Duration(random.Int64N(1e10)))
			case "BOOLEAN":
				v = true
			default:
				v = fmt.Sprintf("%s-%d", f.Name, random.IntN(100))
			}
			if f.Mode == "REPEATED" {
				list := []any{v}
				if f.Name == "ServerMeasurements" {
					for range 28 {
						list = append(list, fill(f.Fields))
					}
				}
				v = list
			}
			object[f.Name] = v
		}
		return object
	}
	object := fill(schemas()["ndt7"])
	delete(object, "Upload")
	object["Download"].(map[string]any)["UUID"] = fmt.Sprintf("host_1_%016X", i)
	text, _ := json.Marshal(object)
	return text
}

// BenchmarkIngest archives ndt7 records from spool files to bundles and Parquet in a folder. An
// iteration is a test; tests/CPU-s is the rate that one CPU carries.
func BenchmarkIngest(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	dir, to := b.TempDir(), b.TempDir()
	day := filepath.Join(dir, "ndt/ndt7/2026/11/26")
	if err := os.MkdirAll(day, 0o755); err != nil {
		b.Fatal(err)
	}
	size := 0
	for i := range b.N {
		text := ndt7Record(random, i)
		size += len(text)
		if err := os.WriteFile(filepath.Join(day, fmt.Sprintf("ndt7-download-%08d.json", i)), text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	a, err := New(Options{Spool: dir, Destination: folderDestination(to), Organization: "example", Node: "mlab1-lga01"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size / b.N))
	b.ResetTimer()
	before := cpuTime(b)
	if r, err := a.Pass(b.Context(), true); err != nil || r.Records != b.N || len(r.Aside) != 0 {
		b.Fatalf("%+v (%v)", r, err)
	}
	b.ReportMetric(float64(b.N)/(cpuTime(b)-before).Seconds(), "tests/CPU-s")
}

// cpuTime is the time that the CPUs spent on this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
