// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"charm.land/bubbles/v2/viewport"

	"weir/cmd/weir/clitest"
	"weir/internal/fault"
	"weir/kernel/testutil"
	"weir/modules/fleet/lead"
	"weir/modules/fleet/leader"
)

var commands = clitest.Group{Command}

func TestMain(m *testing.M) { commands.Main(m) }

// serve starts a server with metrics, and returns its addresses and folder.
func serve(t *testing.T) (server, metrics, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "fleet")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	clitest.StartAs(t, &exec.Cmd{Stderr: w}, "fleet", "serve", "--name", "office", "--dir", dir, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0")
	_ = w.Close()
	t.Cleanup(func() { _ = r.Close() })
	lines := bufio.NewScanner(r)
	for metrics == "" && lines.Scan() {
		line := lines.Text()
		if rest, found := strings.CutPrefix(line, "fleet office at "); found {
			server, _, _ = strings.Cut(rest, ";")
		}
		metrics, _ = strings.CutPrefix(line, "metrics: ")
		if metrics == line {
			metrics = ""
		}
	}
	if server == "" || metrics == "" {
		t.Fatalf("the server gives no addresses: %v", lines.Err())
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	return server, metrics, dir
}

func TestAnOperatorsCommands(t *testing.T) {
	server, metrics, dir := serve(t)
	flags := []string{"--server", server, "--credentials", filepath.Join(dir, "operator.credentials")}
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nshared: {uplink: 400Mbit, wan: {rate: 100Mbit, parent: uplink}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) (fault.Status, string, string) {
		return commands.Call(t, append(append([]string{"fleet"}, args...), flags...)...)
	}
	testutil.Eventually(t, 20*time.Second, "a leader", func() bool {
		status, _, _ := call("status")
		return status == fault.OK
	})
	for _, op := range []string{"plan", "apply"} {
		if status, out, stderr := call(op, file); status != fault.OK || out != "+ uplink: 400 Mbit/s\n+ wan: 100 Mbit/s below uplink\n" {
			t.Fatalf("%s: status %d: %s%s", op, status, out, stderr)
		}
	}
	status, out, stderr := call("status", "--format", "json")
	var document struct {
		Format string               `json:"format"`
		Limits []leader.LimitStatus `json:"limits"`
	}
	if err := json.Unmarshal([]byte(out), &document); err != nil || status != fault.OK || document.Format != "weir-fleet-status/1" || len(document.Limits) != 2 || document.Limits[1].Parent != "uplink" {
		t.Errorf("status %d, %v: %s%s", status, err, out, stderr)
	}
	response, err := http.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(text), `weir_fleet_limit_rate_bytes_per_second{limit="uplink"} 5e+07`) || !strings.Contains(string(text), "weir_fleet_has_leader 1") {
		t.Errorf("%v: %s", err, text)
	}
	if status, _, stderr := call("top"); status != fault.Usage || !strings.Contains(stderr, "weir fleet status") {
		t.Errorf("top without a terminal: status %d: %s", status, stderr)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, line := range []string{
		"fleet serve",
		"fleet serve --name a.b",
		"fleet serve --name a --lease 1ms",
		"fleet serve --name a --metrics 0.0.0.0:9466",
		"fleet serve --name a --metrics 9466",
		"fleet serve --name a --node x",
		"fleet top --interval 1ms",
		"fleet status --server 127.0.0.1",
	} {
		dir := filepath.Join(t.TempDir(), "fleet")
		args := strings.Fields(line)
		if args[1] == "serve" {
			args = append(args, "--dir", dir, "--listen", "127.0.0.1:0")
		}
		status, _, stderr := commands.Call(t, args...)
		if status != fault.Usage || !strings.Contains(stderr, "Try:") {
			t.Errorf("%s: status %d: %s", line, status, stderr)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: made the folder of the server", line)
		}
	}
}

// The live view shows the tables, keeps them when the leader is lost, and ends if the first answer
// is an error.
func TestTheLiveView(t *testing.T) {
	have := lead.Response{Leader: "a", Status: &leader.Status{Epoch: 7, Limits: []leader.LimitStatus{{Name: "uplink", Rate: 1e9, Used: 5e8}},
		Hosts: []leader.HostStatus{{Host: "web\x1b[2J1", Claim: "x/egress", Limit: "uplink", Contact: true}}}}
	var lost error
	v := &topView{interval: time.Second, body: viewport.New(), width: 80, height: 24, ask: func() (lead.Response, error) { return have, lost }}
	v.Update(tea.WindowSizeMsg{Width: 160, Height: 30})
	v.Update(v.readLeader())
	if text := v.View().Content; !strings.Contains(text, "epoch 7") || !strings.Contains(text, "50.0 %") || strings.Contains(text, "\x1b[2J") {
		t.Errorf("%q", text)
	}
	lost = errors.New("fleet office has no leader now")
	if _, command := v.Update(v.readLeader()); command == nil {
		t.Error("the view does not ask again")
	}
	if text := v.View().Content; !strings.Contains(text, "NO ANSWER: fleet office has no leader now") || !strings.Contains(text, "uplink") {
		t.Errorf("%q", text)
	}
	first := &topView{interval: time.Second, body: viewport.New(), width: 80, height: 24, ask: v.ask}
	if _, command := first.Update(first.readLeader()); command == nil || command() != tea.Quit() {
		t.Error("the view goes on without a first answer")
	}
}
