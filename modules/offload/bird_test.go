// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// birdConfig is the guide's configuration: a table of routes to offload, behind two pipes.
const birdConfig = `
router id 10.1.0.1;
ipv4 table offload4;
protocol device {}
%s
protocol kernel kernel_main { ipv4 { export all; }; }
protocol kernel kernel_offload4 {
    ipv4 { table offload4; export all; };
    kernel table 1000;
}
protocol pipe offload_a {
    table master4; peer table offload4;
    import none; export where net ~ [ %s ];
}
protocol pipe offload_b {
    table master4; peer table offload4;
    import none; export where net ~ [ %s ];
}
`

const birdRoutes = `
protocol static upstream {
    ipv4;
    route 198.51.100.0/24 via 10.2.0.2;
    route 198.51.100.128/25 via 10.2.0.3;
    route 203.0.113.0/24 via 10.2.0.2;
    route 192.0.2.0/24 via 10.2.0.3;
}
`

// bird runs BIRD in a namespace until the end of a test.
type bird struct {
	t              *testing.T
	config, socket string
	said           bytes.Buffer
}

func startBird(t *testing.T, ns *netns.Namespace, config string) *bird {
	t.Helper()
	folder := t.TempDir()
	b := &bird{t: t, config: filepath.Join(folder, "bird.conf"), socket: filepath.Join(folder, "ctl")}
	b.write(config)
	ctx, cancel := context.WithCancel(context.Background())
	daemon := exec.CommandContext(ctx, "ip", "netns", "exec", ns.Name, testutil.Command(t, "bird"), "-f", "-c", b.config, "-s", b.socket)
	daemon.Stdout, daemon.Stderr = &b.said, &b.said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(b.said.String())
		}
	})
	return b
}

func (b *bird) write(config string) {
	b.t.Helper()
	if err := os.WriteFile(b.config, []byte(config), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// command runs birdc with a command.
func (b *bird) command(words ...string) string {
	b.t.Helper()
	out, err := exec.Command(testutil.Command(b.t, "birdc"), append([]string{"-s", b.socket}, words...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "error") {
		b.t.Fatalf("birdc %s: %v\n%s", words, err, out)
	}
	return string(out)
}

// With BIRD's routes behind two pipes, only routes that pass the filters are offloaded. A filter
// changes pipe by pipe, and a route that passes both versions stays offloaded.
func TestBirdsRoutesAreOffloadedAsTheGuideSays(t *testing.T) {
	testutil.Command(t, "birdc")
	r := newRouter(t, func(t *Treatment) { t.Table = 1000 })
	config := func(a, b string) string { return fmt.Sprintf(birdConfig, birdRoutes, a, b) }
	const one, both = "198.51.100.0/24+", "198.51.100.0/24+, 203.0.113.0/24+"
	b := startBird(t, r.Router, config(one, one))
	r.follow()
	r.becomes("198.51.100.5", 2)
	r.becomes("198.51.100.200", 3)
	if hop := r.hop("203.0.113.5"); hop != 0 {
		t.Errorf("a route that no filter names is offloaded to %d", hop)
	}
	reload := func(protocol string) {
		t.Helper()
		b.command("configure")
		b.command("reload", protocol)
	}
	b.write(config(both, one))
	reload("offload_a")
	r.becomes("203.0.113.5", 2)
	b.write(config(both, both))
	reload("offload_b")
	if hop := r.hop("198.51.100.5"); hop != 2 {
		t.Errorf("a route that stays goes to %d", hop)
	}
	testutil.Eventually(t, 10*patience, "a table that is the kernel's", func() bool { return r.verify().Holds() })
	if hop := r.hop("192.0.2.5"); hop != 0 {
		t.Errorf("a route that no filter names is offloaded to %d", hop)
	}
}
