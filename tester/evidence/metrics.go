// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"weir/tester/session"
)

// metric is one family of a stream's metrics.
type metric struct {
	name, kind, help string
	value            func(session.Stream) (v float64, known bool)
}

// only returns a counter for streams where has is true.
func only(has func(session.Stream) bool, value func(session.Stream) uint64) func(session.Stream) (float64, bool) {
	return func(s session.Stream) (float64, bool) {
		if !has(s) {
			return 0, false
		}
		return float64(value(s)), true
	}
}

func received(value func(session.Stream) uint64) func(session.Stream) (float64, bool) {
	return only(func(s session.Stream) bool { return s.Received != nil }, value)
}

func sent(value func(session.Stream) uint64) func(session.Stream) (float64, bool) {
	return only(func(s session.Stream) bool { return s.Sent != nil }, value)
}

var streamMetrics = []metric{
	{"sent_frames_total", "counter", "Frames sent.", sent(func(s session.Stream) uint64 { return s.Sent.Frames })},
	{"late_frames_total", "counter", "Frames sent after they were due.", sent(func(s session.Stream) uint64 { return s.Sent.Late })},
	{"skipped_frames_total", "counter", "Frames left out because their time had passed.", sent(func(s session.Stream) uint64 { return s.Sent.Skipped })},
	{"received_frames_total", "counter", "Stamped frames that arrived, duplicates included.", received(func(s session.Stream) uint64 { return s.Received.Received })},
	{"received_wire_bytes_total", "counter", "Octets that they take on the wire, preamble and gap included.", received(func(s session.Stream) uint64 { return s.Received.WireBytes })},
	{"missing_frames", "gauge", "Frames below the highest sequence number that have not arrived.", received(func(s session.Stream) uint64 { return s.Received.Lost })},
	{"duplicate_frames_total", "counter", "Frames that came again.", received(func(s session.Stream) uint64 { return s.Received.Duplicates })},
	{"reordered_frames_total", "counter", "Frames below the next expected sequence number.", received(func(s session.Stream) uint64 { return s.Received.Reordered })},
	{"out_of_window_frames_total", "counter", "Frames too late to distinguish from duplicates.", received(func(s session.Stream) uint64 { return s.Received.OutOfWindow })},
	{"payload_error_frames_total", "counter", "Frames with a wrong UDP checksum.", received(func(s session.Stream) uint64 { return s.Received.PayloadErrors })},
	{"header_error_frames_total", "counter", "Frames with a wrong IPv4 header checksum.", received(func(s session.Stream) uint64 { return s.Received.HeaderErrors })},
	{"restarts_total", "counter", "Times that the sender began again.", received(func(s session.Stream) uint64 { return s.Received.Restarts })},
}

// Metrics writes a running test's counters in the Prometheus text format 0.0.4.
func Metrics(w io.Writer, a session.Account) error {
	var out bytes.Buffer
	for _, m := range streamMetrics {
		fmt.Fprintf(&out, "# HELP weir_tester_%s %s\n# TYPE weir_tester_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, s := range a.Streams {
			if v, known := m.value(s); known {
				fmt.Fprintf(&out, "weir_tester_%s{stream=\"%s\",id=\"%d\",from=\"%s\",to=\"%s\"} %g\n", m.name, escape(s.Name), s.ID, escape(s.From), escape(s.To), v)
			}
		}
	}
	const delay = "weir_tester_delay_seconds"
	fmt.Fprintf(&out, "# HELP %s Delays; with two clocks above the smallest one so far.\n# TYPE %s summary\n", delay, delay)
	for _, s := range a.Streams {
		if s.Received != nil {
			labels := fmt.Sprintf("{stream=\"%s\",id=\"%d\",from=\"%s\",to=\"%s\"}", escape(s.Name), s.ID, escape(s.From), escape(s.To))
			fmt.Fprintf(&out, "%s_sum%s %g\n%s_count%s %d\n", delay, labels, float64(s.Received.DelaySum)/1e9, delay, labels, s.Received.Delay.Count())
		}
	}
	for _, m := range []struct {
		name, help string
		value      uint64
	}{
		{"foreign_frames_total", "Frames without a stamp at the receiving ports.", a.Foreign}, {"unknown_frames_total", "Stamped frames of streams that were not announced.", a.Unknown},
		{"refused_frames_total", "Sent frames that the sending devices did not take.", a.Refused},
	} {
		fmt.Fprintf(&out, "# HELP weir_tester_%s %s\n# TYPE weir_tester_%s counter\nweir_tester_%s %d\n", m.name, m.help, m.name, m.name, m.value)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// escape escapes a text as a label value.
func escape(text string) string {
	return strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n").Replace(text)
}
