// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/core/module"
)

// exposition writes metrics in Prometheus' text format 0.0.4, one family after the other, with a
// bounded buffer. After the first error it writes nothing.
type exposition struct {
	to     io.Writer
	buffer []byte
	err    error
	// family is the current family; its header is written with its first sample.
	family metric
	begun  bool
	labels []byte // of the next sample: `a="x",b="y"`
}

// expositionBuffer is the size of a write in bytes.
const expositionBuffer = 32 << 10

const expositionType = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

func newExposition(to io.Writer) *exposition {
	return &exposition{to: to, buffer: make([]byte, 0, expositionBuffer+4<<10)}
}

// begin starts the samples of a metric.
func (x *exposition) begin(m metric) { x.family, x.begun = m, false }

// header writes the header of a family once.
func (x *exposition) header() {
	if x.begun {
		return
	}
	x.begun = true
	x.text("# HELP ", x.family.name, " ", helpText.Replace(x.family.help), "\n# TYPE ", x.family.name, " ", x.family.kind, "\n")
}

var (
	helpText  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelText = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// label adds a label to the next samples; clear removes all labels.
func (x *exposition) label(name, value string) {
	if len(x.labels) > 0 {
		x.labels = append(x.labels, ',')
	}
	x.labels = append(append(x.labels, name...), '=', '"')
	if !utf8.ValidString(value) {
		value = strings.ToValidUTF8(value, "\uFFFD")
	}
	x.labels = append(append(x.labels, labelText.Replace(value)...), '"')
}

func (x *exposition) clear() { x.labels = x.labels[:0] }

// sample writes a value of the family.
func (x *exposition) sample(value float64) { x.line("", "", value) }

// line writes a line; le is a bucket's bound, as a label.
func (x *exposition) line(suffix, le string, value float64) {
	x.header()
	x.text(x.family.name, suffix)
	if len(x.labels)+len(le) > 0 {
		x.buffer = append(append(x.buffer, '{'), x.labels...)
		if len(x.labels) > 0 && le != "" {
			x.buffer = append(x.buffer, ',')
		}
		x.text(le, "}")
	}
	x.buffer = append(appendValue(append(x.buffer, ' '), value), '\n')
	if len(x.buffer) >= expositionBuffer {
		x.flush()
	}
}

// value writes a module's value, or nothing if it is unknown.
func (x *exposition) value(v module.Value) {
	switch {
	case !v.Known:
	case v.Histogram != nil:
		x.histogram(v.Histogram)
	default:
		x.sample(v.Number * x.family.scale)
	}
}

// lastBucket is the last bucket with a bound: 2^24 µs, 16.8 s, beyond every default threshold.
const lastBucket = 23

// bounds holds the labels of the buckets.
var bounds = func() (all [lastBucket + 1]string) {
	for i := range all {
		all[i] = `le="` + strconv.FormatFloat(math.Ldexp(1e-6, i+1), 'g', -1, 64) + `"`
	}
	return all
}()

// histogram writes a cumulative histogram in seconds from counts by powers of two of a microsecond.
// Without a known sum it uses the middle of each bucket.
func (x *exposition) histogram(b *module.Buckets) {
	total, sum := uint64(0), 0.0
	for i, n := range b.Counts {
		low, high := math.Ldexp(1e-6, i), math.Ldexp(1e-6, i+1)
		if i == 0 {
			low = 0
		}
		total += n
		sum += float64(n) * (low + high) / 2
		if i <= lastBucket {
			x.line("_bucket", bounds[i], float64(total))
		}
	}
	if b.Sum > 0 {
		sum = b.Sum
	}
	x.line("_bucket", `le="+Inf"`, float64(total))
	x.line("_sum", "", sum)
	x.line("_count", "", float64(total))
}

func (x *exposition) text(all ...string) {
	for _, s := range all {
		x.buffer = append(x.buffer, s...)
	}
}

// flush writes the buffer.
func (x *exposition) flush() {
	if x.err == nil {
		_, x.err = x.to.Write(x.buffer)
	}
	x.buffer = x.buffer[:0]
}

// close completes the text.
func (x *exposition) close() error {
	x.flush()
	return x.err
}

// appendValue formats a number for the exposition.
func appendValue(to []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(to, "+Inf"...)
	case math.IsInf(v, -1):
		return append(to, "-Inf"...)
	case math.IsNaN(v):
		return append(to, "NaN"...)
	}
	return strconv.AppendFloat(to, v, 'g', -1, 64)
}
