// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/kernel/testutil"
)

// collector returns the OpenTelemetry collector's executable; without one it skips the test.
func collector(t *testing.T) string {
	t.Helper()
	return testutil.Fetched(t, "WEIR_COLLECTOR", "collector", "scripts/fetch-collector")
}

// received is a span in the collector's output.
type received struct{ trace, parent, id, node string }

var spanText = regexp.MustCompile(`(?s)Trace ID +: (\w*)\n +Parent ID +: (\w*)\n +ID +: (\w*)\n(.*?)(?:Span #|\n\t\{)`)
var nodeText = regexp.MustCompile(`ioam\.node: Int\((\d+)\)`)

func spansIn(log string) (all []received) {
	for _, m := range spanText.FindAllStringSubmatch(log, -1) {
		s := received{trace: m[1], parent: m[2], id: m[3]}
		if node := nodeText.FindStringSubmatch(m[4]); node != nil {
			s.node = node[1]
		}
		all = append(all, s)
	}
	return all
}

const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

// collected runs a collector and weir ioam watch on the last node of a domain of two, while a
// client on the first node runs. It returns the collector's output. Each section of a policy gets
// more keys.
func collected(t *testing.T, firstNode, treatment, lastNode, watch, client, awaited string) string {
	t.Helper()
	for name, value := range map[string]string{"COLLECTOR": collector(t), "TRACE": traceID, "TRACEPARENT": "00-" + traceID + "-" + spanID + "-01",
		"FIRST": firstNode, "TREATMENT": treatment, "LAST": lastNode, "WATCH": watch, "CLIENT": client} {
		t.Setenv(name, value)
	}
	t.Setenv("OPENSSL", testutil.Command(t, "openssl"))
	got := box(t, `set -e
"$OPENSSL" req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=weir 2> openssl.log
cat > collector.yaml <<C
receivers:
  otlp: {protocols: {http: {endpoint: "[::]:4318"}}}
  otlp/tls: {protocols: {http: {endpoint: "[::]:4319", tls: {cert_file: cert.pem, key_file: key.pem}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp, otlp/tls], exporters: [debug]}
    metrics: {receivers: [otlp], exporters: [debug]}
C
cat > first.yaml <<P
version: 1
ioam:
  node: 1
  interfaces: {right: {id: 11, roles: [ingress, egress], reserve: true}}
  namespaces: {123: {}}
  $FIRST
scopes:
  server: {prefix: "2001:db8::/64", ioam: {namespace: 123, $TREATMENT}}
P
cat > last.yaml <<P
version: 1
ioam:
  node: 2
  interfaces: {left: {id: 20, roles: [ingress, egress]}}
  namespaces: {123: {remove: true}}
  $LAST
scopes: {}
P
trap 'kill $collector $watch' EXIT
"$COLLECTOR" --config collector.yaml > log 2>&1 & collector=$!
await grep -q 'Everything is ready' log
ip netns add client
ip link add left type veth peer name right netns client
ip address add 2001:db8::2/64 dev left nodad
ip link set left up
"$WEIR" apply --quiet last.yaml
"$WEIR" ioam watch --quiet $WATCH > watched 2>&1 & watch=$!
nsenter --net=/run/netns/client unshare --mount sh -ec 'mount -t bpf bpf /sys/fs/bpf
export WEIR_RUN_DIR=/run/weir-client
ip address add 2001:db8::1/64 dev right nodad
ip link set right up
"$WEIR" apply --quiet first.yaml
echo 0 > "$ROOT/backups/cgroup.procs"
eval "$CLIENT"
"$WEIR" release --quiet'
`+awaited+`
"$WEIR" release --quiet
kill $collector
wait $collector
trap - EXIT
cat log`)
	got.want(t, 0)
	return got.stdout
}

// joinsTrace checks that packets are below the application's span, each with the spans of both
// nodes below its own.
func joinsTrace(t *testing.T, log string) (all, joined []received) {
	t.Helper()
	under := map[string][]string{} // nodes by parent span
	all = spansIn(log)
	for _, s := range all {
		if s.trace == traceID && s.parent == spanID {
			joined = append(joined, s)
		}
		if s.trace == traceID && s.node != "" {
			under[s.parent] = append(under[s.parent], s.node)
		}
	}
	if len(joined) == 0 {
		t.Fatalf("of %d spans none is under the application's\n%s", len(all), log)
	}
	for _, s := range joined {
		if !slices.Equal(under[s.id], []string{"1", "2"}) {
			t.Errorf("packet %s has the nodes %v", s.id, under[s.id])
		}
	}
	return all, joined
}

const (
	sent = `await grep -q "$TRACE" log
kill -INT $watch
wait $watch`
	sendTraces  = "--otlp http://[::1]:4318/v1/traces"
	traceFields = "trace: [node, interfaces, timestamps]"
)

// curl sends a request to a collector on the last node of a domain; the spans of the nodes are in
// curl's trace, under its span.
func TestACollectorGetsHopsInAnApplicationsTrace(t *testing.T) {
	t.Setenv("CURL", testutil.Command(t, "curl"))
	log := collected(t, "", traceFields, "trace_context: true", sendTraces,
		`"$CURL" -sS --max-time 60 -o answer -H "traceparent: $TRACEPARENT" "http://[2001:db8::2]:4318/"`, sent)
	if all, joined := joinsTrace(t, log); len(joined) == len(all) {
		t.Error("packets of no request are in curl's trace too")
	}
}

// python3 sends a request to the collector in TLS, and sets its span at the socket. No node can
// read the traffic, and the spans of the nodes are in its trace. One trace of the whole flow
// suffices.
func TestACollectorGetsHopsOfWhatIsInTLS(t *testing.T) {
	if testutil.KnownAbsent(os.Getenv("TEST_KERNEL"), "sk_storage-updates") {
		testutil.Need(t, "sk_storage-updates", errors.New("programs keep nothing with a socket"))
	}
	t.Setenv("PYTHON", testutil.Command(t, "python3"))
	t.Setenv("SCRIPT", `
import os, socket, ssl
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
s.setsockopt(0x57454952, 1, os.environ["TRACEPARENT"].encode())
s.connect(("2001:db8::2", 4319))
s = ssl._create_unverified_context().wrap_socket(s)
s.sendall(b"GET / HTTP/1.1\r\nHost: collector\r\nConnection: close\r\n\r\n")
assert s.makefile().read().startswith("HTTP/1.1")
`)
	log := collected(t, "socket_context: true", traceFields+", protocol: tcp", "", sendTraces+" --trace-per flow --trace-every 1s",
		`"$PYTHON" -c "$SCRIPT"`, sent)
	joinsTrace(t, log)
}

var metricText = regexp.MustCompile(`(?s)-> Name: (weir\.ioam\.[\w.]+)\n(.*?)(?:Metric #|\n\t\{)`)

// metricsIn returns the last metric of each name in a collector's output.
func metricsIn(log string) map[string]string {
	all := map[string]string{}
	for _, m := range metricText.FindAllStringSubmatch(log, -1) {
		all[m[1]] = m[2]
	}
	return all
}

// Seven datagrams cross a domain: a collector receives their number, the path with delays, and a
// loss of 0.
func TestACollectorGetsMetrics(t *testing.T) {
	t.Setenv("PYTHON", testutil.Command(t, "python3"))
	t.Setenv("SCRIPT", `
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
for n in range(7): s.sendto(b"weir", ("2001:db8::2", 9))
`)
	log := collected(t, "", traceFields+", edge: [sequence, timestamps], protocol: udp", "", "--count 7 --otlp-metrics http://[::1]:4318/v1/metrics",
		`"$PYTHON" -c "$SCRIPT"`, `wait $watch
await grep -q weir.ioam.packets log`)
	got := metricsIn(log)
	for name, want := range map[string][]string{
		"weir.ioam.packets":      {"DataType: Sum", "IsMonotonic: true", "AggregationTemporality: Cumulative", "Value: 7\n"},
		"weir.ioam.path.packets": {"ioam.namespace: Int(123)", "ioam.path: Str(-:1:11 > 20:2:-)", "Value: 7\n"},
		"weir.ioam.path.delay":   {"DataType: Histogram", "Count: 7\n", "ExplicitBounds #24: "},
		"weir.ioam.hop.to_next":  {"ioam.hop: Int(1)", "ioam.node: Int(1)", "ioam.egress: Int(11)", "Count: 7\n"},
		"weir.ioam.edge.packets": {"source.address: Str(2001:db8::1)", "destination.port: Int(9)", "Value: 7\n"},
		"weir.ioam.edge.lost":    {"DataType: Gauge", "Value: 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range want {
				if !strings.Contains(got[name], text) {
					t.Errorf("%s has not %q:\n%s", name, text, got[name])
				}
			}
		})
	}
}
