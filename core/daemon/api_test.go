// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"weir/internal/child"
	"weir/internal/fault"
	"weir/internal/listen"
	"weir/kernel/cgroup"
	"weir/kernel/testutil"
)

// served starts a service with an API and returns a client of its socket once the policy is active.
// The API answers before that.
func served(t *testing.T, text string) (*Service, *http.Client) {
	t.Helper()
	e := setup(t)
	s := service(t, e, text)
	s.Socket = filepath.Join(t.TempDir(), "api.sock")
	start(t, s)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Socket)
	}}}
	t.Cleanup(client.CloseIdleConnections)
	testutil.Eventually(t, patience, "the API, with an active policy", func() bool {
		answer, err := client.Get("http://weir/healthz")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return s, client
}

// ask sends one request and returns the status and the body.
func ask(t *testing.T, client *http.Client, method, path, body string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://weir"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/yaml")
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text
}

func TestAPIPlansAppliesShowsAndReleases(t *testing.T) {
	s, client := served(t, oneScope)
	if info, err := os.Stat(s.Socket); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("socket %v (%v), want mode 0600", info.Mode(), err)
	}
	answers := schemas(t, client)
	two := oneScope + "  b: {user: 4711, ingress: {rate: 2Mbit, mode: police}}\n"
	for _, step := range []struct {
		method, path, body, schema, want string
		status                           int
	}{
		{"GET", "/v1/status", "", "Status", `"rate":1000000`, 200},
		{"POST", "/v1/plan", two, "PolicyResult", `"action":"add"`, 200},
		{"POST", "/v1/plan", "version: 1\nscopes: {a: {cgroup: /a, egres: 1Mbit}}", "ErrorModel", `policy:2:26: unknown key`, 422},
		{"POST", "/v1/apply", "scopes: [", "ErrorModel", `look for a missing colon`, 422},
		{"GET", "/v1/status", "", "Status", `"name":"a"`, 200},
		{"POST", "/v1/apply?shadow=true", two, "PolicyResult", `"action":"change"`, 200},
		{"GET", "/v1/status", "", "Status", `"state":"shadow"`, 200},
		{"POST", "/v1/release", "", "Released", `"released":true`, 200},
		{"POST", "/v1/release", "", "Released", `"released":false`, 200},
		{"POST", "/v1/apply", "", "ErrorModel", `request body is required`, 400},
	} {
		status, text := ask(t, client, step.method, step.path, step.body)
		if status != step.status || !strings.Contains(string(text), step.want) {
			t.Errorf("%s %s: %d %s\nwant %d with %s", step.method, step.path, status, text, step.status, step.want)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := answers(step.schema).Validate(document); err != nil {
			t.Errorf("%s %s does not answer as the OpenAPI description says: %v", step.method, step.path, err)
		}
	}
	if in, err := s.Engine.ActiveSelectors(); err != nil || in != nil {
		t.Errorf("after the release %v is active (%v)", in, err)
	}
}

// schemas reads the OpenAPI description and returns its schemas by name.
func schemas(t *testing.T, client *http.Client) func(name string) *jsonschema.Schema {
	t.Helper()
	status, text := ask(t, client, "GET", "/openapi.json", "")
	if status != http.StatusOK {
		t.Fatalf("no description: %d", status)
	}
	var description struct {
		OpenAPI string
		Paths   map[string]any
	}
	if err := json.Unmarshal(text, &description); err != nil || !strings.HasPrefix(description.OpenAPI, "3.1") {
		t.Fatalf("description of version %q: %v", description.OpenAPI, err)
	}
	for _, path := range []string{"/v1/status", "/v1/plan", "/v1/apply", "/v1/release"} {
		if description.Paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mem:///openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		schema, err := compiler.Compile("mem:///openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}
}

// sendPart reads a number from in and sends as many datagrams over loopback, in the cgroup of its
// process.
func sendPart(in io.Reader, out io.Writer) error {
	var n int
	if err := json.NewDecoder(in).Decode(&n); err != nil {
		return err
	}
	sink, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for range n {
		if _, err := sink.WriteTo(make([]byte, 958), sink.LocalAddr()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, "sent")
	return err
}

// transmit sends n datagrams of 1000 bytes on the wire from a cgroup.
func transmit(t *testing.T, path string, n int) {
	t.Helper()
	process, err := child.Start(context.Background(), "send", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := (cgroup.Cgroup{Path: path}).Add(process.PID()); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(process.In).Encode(n); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Fatal(err)
	}
}

// sample finds a metric by name and labels.
func sample(t *testing.T, families map[string]*dto.MetricFamily, name string, labels map[string]string) *dto.Metric {
	t.Helper()
	family := families[name]
	for _, m := range family.GetMetric() {
		found := 0
		for _, label := range m.GetLabel() {
			if labels[label.GetName()] == label.GetValue() {
				found++
			}
		}
		if found == len(labels) && found == len(m.GetLabel()) {
			return m
		}
	}
	t.Fatalf("no metric %s%v", name, labels)
	return nil
}

func TestScrapeSaysWhatWasDone(t *testing.T) {
	s, client := served(t, "version: 1\nscopes:\n  a: {cgroup: /a, loopback: true, egress: {rate: 8Mbit, mode: police}, ingress: {rate: 80Mbit, mode: police}}\n  later: {cgroup: /later, egress: {rate: 1Mbit, mode: police}}\n")
	path := testutil.Mkdir(t, s.Engine.CgroupRoot, "a")
	becomes(t, s.Engine, "a", "enforced")
	const packets = 3
	transmit(t, path, packets)
	for _, path := range []string{"/metrics", "/v1/metrics"} {
		status, text := ask(t, client, "GET", path, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		problems, err := promlint.New(bytes.NewReader(text)).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", path, problems, err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		checkScrape(t, families, packets)
	}
}

func checkScrape(t *testing.T, families map[string]*dto.MetricFamily, packets float64) {
	t.Helper()
	out := map[string]string{"scope": "a", "direction": "egress"}
	in := map[string]string{"scope": "a", "direction": "ingress"}
	value := func(m *dto.Metric) float64 { return m.GetCounter().GetValue() + m.GetGauge().GetValue() }
	for _, want := range []struct {
		name   string
		labels map[string]string
		value  float64
	}{
		{"weir_scope_packets_total", out, packets},
		{"weir_scope_segments_total", out, packets},
		{"weir_scope_bytes_total", out, 1000 * packets},
		{"weir_scope_bytes_total", in, 1000 * packets},
		{"weir_scope_marked_packets_total", out, 0},
		{"weir_scope_reductions_total", out, 0},
		{"weir_scope_dropped_packets_total", out, 0},
		{"weir_scope_forced_packets_total", out, 0},
		{"weir_scope_limit_bytes_per_second", out, 1e6},
		{"weir_scope_limit_bytes_per_second", in, 1e7},
		{"weir_scope_state", map[string]string{"scope": "a", "state": "enforced"}, 1},
		{"weir_scope_state", map[string]string{"scope": "later", "state": "waiting"}, 1},
		{"weir_enforced", nil, 1},
		{"weir_apply_interrupted", nil, 0},
		{"weir_policy_file_in_force", nil, 1},
		{"weir_scope_overflow_packets_total", nil, 0},
	} {
		if got := value(sample(t, families, want.name, want.labels)); got != want.value {
			t.Errorf("%s%v is %g, want %g", want.name, want.labels, got, want.value)
		}
	}
	if fair := value(sample(t, families, "weir_scope_fair_rate_bytes_per_second", out)); fair <= 0 || fair > 1.25e6 {
		t.Errorf("fair rate %g octet/s of a limit of 1e6, of which a flow may use five quarters", fair)
	}
	if queue := sample(t, families, "weir_scope_queue_time_seconds", out).GetHistogram(); queue.GetSampleCount() != uint64(packets) {
		t.Errorf("the histogram has %d packets, want %g", queue.GetSampleCount(), packets)
	}
	for _, name := range []string{"weir_controller_last_seen_timestamp_seconds", "weir_controller_start_timestamp_seconds", "weir_policy_applied_timestamp_seconds"} {
		if value(sample(t, families, name, nil)) < 1.7e9 {
			t.Errorf("%s is no time of ours", name)
		}
	}
}

func TestTheTextFileStaysWhenTheControllerGoes(t *testing.T) {
	e := setup(t)
	s := service(t, e, oneScope)
	s.Textfile = filepath.Join(t.TempDir(), "weir.prom")
	stop := start(t, s)
	testutil.Eventually(t, patience, "the text file", func() bool { _, err := os.Stat(s.Textfile); return err == nil })
	stop()
	text, err := os.ReadFile(s.Textfile)
	if err != nil || !strings.Contains(string(text), "weir_controller_last_seen_timestamp_seconds 1") {
		t.Errorf("the text file does not say when the controller was last seen (%v):\n%s", err, text)
	}
}

func TestMetricsAreServedOnLoopbackAlone(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":9464", "[::]:0", "192.0.2.1:0", "example.org:1", "127.0.0.1"} {
		listener, err := listenLoopback(address)
		if fault.Of(err) != fault.Usage || fault.Advice(err) == "" {
			t.Errorf("%s: %v, want a usage error with a way out", address, err)
		}
		if err == nil {
			_ = listener.Close()
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		listener, err := listenLoopback(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
	}
}

func TestASocketThatAKilledControllerLeftIsReplacedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "left")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: left})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Unix("unix", left); fault.Of(err) != fault.Failed {
		t.Errorf("a socket in use: %v", err)
	}
	listener.SetUnlinkOnClose(false)
	_ = listener.Close()
	again, err := listen.Unix("unix", left)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	file := filepath.Join(dir, "file")
	testutil.Write(t, file, "precious")
	if _, err := listen.Unix("unix", file); fault.Of(err) != fault.Usage {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestHistogramIsCumulativeInSeconds(t *testing.T) {
	total, sum, buckets := cumulative([32]uint64{0: 5, 1: 2, 10: 1, 31: 1})
	if total != 9 || buckets[2e-6] != 5 || buckets[4e-6] != 7 || buckets[0.002048] != 8 || len(buckets) != lastBucket+1 {
		t.Errorf("%d packets, buckets %v", total, buckets)
	}
	if most := 5*2e-6 + 2*4e-6 + 0.002048 + 4294.967296; sum <= 0 || sum > most {
		t.Errorf("sum %g is above %g", sum, most)
	}
}

// An address or file that cannot be served is an error with advice before the first apply.
func TestUnusableAddressesAreErrorsAtTheStart(t *testing.T) {
	taken, err := listenLoopback("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, test := range []struct {
		name    string
		service *Service
		status  fault.Status
		try     string
	}{
		{"a port in use", &Service{Metrics: taken.Addr().String()}, fault.Failed, "name another port"},
		{"a port that is none", &Service{Metrics: "127.0.0.1:99999"}, fault.Usage, "write --listen"},
		{"a path that is too long", &Service{Socket: filepath.Join(t.TempDir(), strings.Repeat("x", 100))}, fault.Usage, "name a shorter path"},
		{"a folder for a text file", &Service{Textfile: t.TempDir()}, fault.Usage, "name a file in a folder"},
		{"a text file in no folder", &Service{Textfile: "/nowhere/weir.prom"}, fault.Usage, "name a file in a folder"},
	} {
		s := test.service
		s.Engine, s.Log = setup(t), slog.New(slog.DiscardHandler)
		all, err := s.listen()
		_ = closeAll(all)
		if fault.Of(err) != test.status || !strings.Contains(fault.Advice(err), test.try) {
			t.Errorf("%s: %v, status %d, try %q", test.name, err, fault.Of(err), fault.Advice(err))
		}
		if other := s.writeMetrics(); test.service.Textfile != "" && other.Error() != s.writeMetrics().Error() {
			t.Errorf("%s: the error differs from call to call: %v", test.name, other)
		}
	}
}
