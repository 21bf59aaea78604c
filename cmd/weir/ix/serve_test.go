// SPDX-License-Identifier: Apache-2.0

package ix

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/ix/config"
	"weir/ix/server"
	"weir/kernel/testutil"
)

func TestServeNeedsItsKeysAndFolders(t *testing.T) {
	file, _ := files(t, exchange)
	if status, _, stderr := commands.Call(t, "ix", "serve", file, "--state", t.TempDir()); status != fault.Usage || !strings.Contains(stderr, "exchange.router_id is missing") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := commands.Call(t, "ix", "serve", file, "--state", filepath.Join(t.TempDir(), "none")); status != fault.Usage || !strings.Contains(stderr, "--state") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, _, stderr := commands.Call(t, "ix", "status", "--socket", filepath.Join(t.TempDir(), "none")); status != fault.Failed || !strings.Contains(stderr, "weir ix serve FILE") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestBirdConfiguration(t *testing.T) {
	file, _ := files(t, strings.Replace(exchange, "sponsors:", "feed: {bird: 10.99.0.1, local: 10.99.0.2}\nsponsors:", 1))
	if status, out, stderr := commands.Call(t, "ix", "bird", file); status != fault.OK || !strings.Contains(out, "protocol bgp weir_feed") {
		t.Errorf("status %d: %s %s", status, out, stderr)
	}
	if status, out, _ := commands.Call(t, "ix", "bird", file, "--format", "json"); status != fault.OK || !strings.Contains(out, "weir-ix-bird/1") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestJoinAddsAMember(t *testing.T) {
	file, _ := files(t, exchange)
	member := filepath.Join(t.TempDir(), "school.yaml")
	testutil.Write(t, member, "school: {as: 64990, addresses: [10.99.2.77]}\n")
	if status, out, stderr := commands.Call(t, "ix", "join", file, member, "--check"); status != fault.OK || !strings.Contains(out, "school (AS 64990, 4 paths per prefix) fits into") {
		t.Errorf("status %d: %s %s", status, out, stderr)
	}
	if status, out, stderr := commands.Call(t, "ix", "join", file, member, "--format", "json"); status != fault.OK || !strings.Contains(out, `"added": true`) {
		t.Errorf("status %d: %s %s", status, out, stderr)
	}
	if status, out, _ := commands.Call(t, "ix", "check", file); status != fault.OK || !strings.Contains(out, "3 members") {
		t.Errorf("status %d: %s", status, out)
	}
	if status, _, stderr := commands.Call(t, "ix", "join", file, member); status != fault.Usage || !strings.Contains(stderr, `member "school" already`) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// The commands of a running server, over its socket.
func TestCommandsOfAServer(t *testing.T) {
	file, rib := files(t, strings.Replace(exchange, "as: 65500}", "as: 65500, router_id: 10.99.0.2}\nlisten: [127.0.0.1]", 1))
	e, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	e.Feed.RIB = rib
	folder := t.TempDir()
	s, err := server.New(e, server.Options{State: folder})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "s")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Control(ctx, socket, cancel) }()
	testutil.Eventually(t, time.Minute, "the server", func() bool {
		status, _, _ := commands.Call(t, "ix", "status", "--socket", socket)
		return status == fault.OK
	})
	if status, _, stderr := commands.Call(t, "ix", "drain", "orage", "--socket", socket); status != fault.Usage || !strings.Contains(stderr, `no sponsor or port "orage"`) {
		t.Errorf("status %d: %s", status, stderr)
	}
	if status, out, stderr := commands.Call(t, "ix", "drain", "orange", "--socket", socket); status != fault.OK || out != "orange is drained\n" {
		t.Errorf("status %d: %s %s", status, out, stderr)
	}
	status, out, _ := commands.Call(t, "ix", "status", "--socket", socket)
	if status != fault.OK || !strings.Contains(out, "drained: orange/ber1") || !strings.Contains(out, "3 paths to 2 prefixes") || !strings.Contains(out, "paths with the next hop of no port") {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out, _ = commands.Call(t, "ix", "drain", "orange", "--end", "--socket", socket, "--format", "json"); status != fault.OK || !strings.Contains(out, `"drained": false`) {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out, _ = commands.Call(t, "ix", "status", "--socket", socket, "--format", "json"); status != fault.OK || !strings.Contains(out, "weir-ix-status/1") {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out, _ = commands.Call(t, "ix", "stop", "--socket", socket, "--message", "bye"); status != fault.OK {
		t.Errorf("status %d: %s", status, out)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
