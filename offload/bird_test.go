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

	"weir/internal/testutil"
)

// birdConfig is the guide's recipe: a table of routes to offload, behind two pipes.
const birdConfig = `
router id 10.1.0.1;
ipv4 table offload4;
protocol device {}
protocol static upstream {
    ipv4;
    route 198.51.100.0/24 via 10.2.0.2;
    route 198.51.100.128/25 via 10.2.0.3;
    route 203.0.113.0/24 via 10.2.0.2;
    route 192.0.2.0/24 via 10.2.0.3;
}
protocol kernel kernel_main { ipv4 { export all; }; }
protocol kernel kernel_offload4 {
    ipv4 { table offload4; export all; };
    kernel table 1000;
}
protocol pipe offload_a {
    table master4; peer table offload4;
    export where net ~ [ %s ];
}
protocol pipe offload_b {
    table master4; peer table offload4;
    export where net ~ [ %s ];
}
`

// With BIRD's routes behind two pipes only those that the filters name are offloaded; a filter is
// changed pipe by pipe without a moment in which a route that both have is not.
func TestBirdsRoutesAreOffloadedAsTheGuideSays(t *testing.T) {
	daemon, control := testutil.Command(t, "bird"), testutil.Command(t, "birdc")
	r := newRouter(t, func(t *Treatment) { t.Table = 1000 })
	folder := t.TempDir()
	config, socket := filepath.Join(folder, "bird.conf"), filepath.Join(folder, "ctl")
	write := func(a, b string) {
		t.Helper()
		if err := os.WriteFile(config, fmt.Appendf(nil, birdConfig, a, b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const one, both = "198.51.100.0/24+", "198.51.100.0/24+, 203.0.113.0/24+"
	write(one, one)
	ctx, cancel := context.WithCancel(context.Background())
	bird := exec.CommandContext(ctx, "ip", "netns", "exec", r.Router.Name, daemon, "-f", "-c", config, "-s", socket)
	var said bytes.Buffer
	bird.Stdout, bird.Stderr = &said, &said
	if err := bird.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = bird.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	r.follow()
	r.becomes("198.51.100.5", 2)
	r.becomes("198.51.100.200", 3)
	if hop := r.hop("203.0.113.5"); hop != 0 {
		t.Errorf("a route that no filter names is offloaded to %d", hop)
	}
	reload := func(protocol string) {
		t.Helper()
		for _, words := range [][]string{{"configure"}, {"reload", protocol}} {
			out, err := exec.Command(control, append([]string{"-s", socket}, words...)...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "error") {
				t.Fatalf("birdc %s: %v\n%s", words, err, out)
			}
		}
	}
	write(both, one)
	reload("offload_a")
	r.becomes("203.0.113.5", 2)
	write(both, both)
	reload("offload_b")
	if hop := r.hop("198.51.100.5"); hop != 2 {
		t.Errorf("a route that stays goes to %d", hop)
	}
	testutil.Eventually(t, 10*patience, "a table that is the kernel's", func() bool { return r.verify().Holds() })
	if hop := r.hop("192.0.2.5"); hop != 0 {
		t.Errorf("a route that no filter names is offloaded to %d", hop)
	}
}
