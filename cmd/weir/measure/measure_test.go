// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"weir/internal/fault"
	"weir/measure/client"
	"weir/measure/record"
	evidence "weir/record"
)

func TestWrongCommandLines(t *testing.T) {
	for _, line := range []string{
		"measure run",
		"measure run https://a",
		"measure run a --direction sideways",
		"measure run a -4 -6",
		"measure run a --both -4",
		"measure run a --repeat 0",
		"measure run a --test ndt8",
		"measure run a --streams 2",
		"measure run a --cc cubic",
		"measure run a --test latency --direction upload",
		"measure run a --test latency --streams 2",
		"measure run a --test latency --latency-port 0",
		"measure serve --latency-listen 1053",
		"measure run a --test msak --streams 0",
		"measure run a --test msak --cc vegas",
		"measure run a --test msak --duration 26s",
		"measure run 127.0.0.1 --bind no-such-device0",
		"measure serve now",
		"measure serve --cert a",
		"measure serve --cert a --key b --self-signed",
		"measure serve --token-machine a",
		"measure serve --token-machine a --token-key /nonexistent/key.json",
		"measure serve --check --token-key /nonexistent/key.json",
		"measure serve --acme 192.0.2.9",
		"measure serve --acme localhost",
		"measure serve --acme a.example --self-signed",
		"measure serve --acme-directory https://ca.example/dir",
		"measure serve --acme a.example --acme-directory http://ca.example/dir",
		"measure serve --acme a.example --acme-ca /nonexistent/ca.pem",
		"measure serve --max-tests 0",
		"measure serve --metrics 0.0.0.0:9990",
		"measure serve --metrics 9990",
		"measure serve --listen 80",
		"measure serve --tls-listen :8443",
		"measure serve --cert /nonexistent/cert.pem --key /nonexistent/key.pem",
	} {
		status, stdout, stderr := commands.Call(t, strings.Fields(line)...)
		if status != fault.Usage || stdout != "" || !strings.Contains(stderr, "Try:") {
			t.Errorf("weir %s: status %d, %q, %q", line, status, stdout, stderr)
		}
	}
}

func TestCheckReportsAsJSON(t *testing.T) {
	status, stdout, stderr := commands.Call(t, "measure", "serve", "--check", "--self-signed", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--latency-listen", "127.0.0.1:0", "--spool", t.TempDir(), "--format", "json")
	var result checkResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || status != fault.OK || !result.Works || result.Format != "weir-measure-check/1" || len(result.Checks) < 7 {
		t.Errorf("status %d, %+v, %v, %s", status, result, err, stderr)
	}
}

func TestEachRoundHasEveryTestOnce(t *testing.T) {
	o := runOptions{direction: "both", both: true, repeat: 4, seed: 7}
	addresses := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:443"), netip.MustParseAddrPort("[2001:db8::9]:443")}
	directions, err := o.directions()
	tasks, again := o.order(addresses, directions), o.order(addresses, directions)
	if err != nil || len(tasks) != 16 {
		t.Fatalf("%d tests, %v", len(tasks), err)
	}
	shuffled := false
	for round := range 4 {
		seen := map[string]bool{}
		for i, task := range tasks[round*4 : round*4+4] {
			seen[string(task.direction)+task.family.String()] = true
			shuffled = shuffled || task.direction != tasks[i].direction || task.family != tasks[i].family
			if task != again[round*4+i] || task.repetition != round+1 {
				t.Errorf("test %d of round %d: %+v, again %+v", i, round, task, again[round*4+i])
			}
		}
		if len(seen) != 4 {
			t.Errorf("round %d: %v", round, seen)
		}
	}
	if !shuffled {
		t.Error("all rounds have one order")
	}
}

// reportOf is a report of these download rates in Mbit/s; 0 is a test that does not count.
func reportOf(four, six []float64) *report {
	r := &report{server: client.Server{Host: "a", Port: "443", TLS: true}, options: &runOptions{repeat: max(len(four), len(six))}}
	for family, rates := range map[client.Family][]float64{client.IPv4: four, client.IPv6: six} {
		for i, rate := range rates {
			result := client.Result{Rate: rate * 1e6, Valid: rate > 0, Notes: []string{}}
			if rate == 0 {
				result.Reason = "the test failed"
			}
			r.add(task{family: family, direction: record.Download, repetition: i + 1}, result)
		}
	}
	return r
}

func TestOnlyTestsThatCountAreCompared(t *testing.T) {
	b := reportOf([]float64{90, 92, 0, 91}, []float64{50, 52, 51, 51}).bundle()
	d := reportOf([]float64{90, 92, 0, 91}, []float64{50, 52, 51, 51}).differences(b.Samples)
	if len(d) != 1 || d[0].Metric != "goodput" || d[0].Value > -39.9e6 || d[0].Value < -40.1e6 || d[0].Low == nil || !d[0].Significant {
		t.Errorf("differences %+v", d)
	}
	invalid := 0
	for _, s := range b.Samples {
		if !s.Valid {
			invalid++
			if s.Reason == "" {
				t.Errorf("%+v lacks a reason", s)
			}
		}
	}
	if invalid != 1 || len(b.Tables) != 3 || b.Samples[0].Unit != evidence.BitPerSecond {
		t.Errorf("%d invalid samples, %d tables", invalid, len(b.Tables))
	}
	if d := reportOf([]float64{90}, []float64{50}).differences(reportOf([]float64{90}, []float64{50}).bundle().Samples); len(d) != 1 || d[0].Low != nil || d[0].Significant {
		t.Errorf("one test each: %+v", d)
	}
	if d := reportOf([]float64{0, 0}, []float64{50, 51}).differences(reportOf([]float64{0, 0}, []float64{50, 51}).bundle().Samples); len(d) != 0 {
		t.Errorf("a family without tests that count: %+v", d)
	}
}
