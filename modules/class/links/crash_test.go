// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/core/module"
)

// A process that applies a policy in another namespace until it is killed.
const (
	crashPolicy = "WEIR_LINKS_TEST_POLICY"
	crashPins   = "WEIR_LINKS_TEST_PINS"
	crashFiles  = "WEIR_LINKS_TEST_FILES"
)

func TestMain(m *testing.M) {
	if text, asked := os.LookupEnv(crashPolicy); asked {
		os.Exit(applyForever(text))
	}
	os.Exit(m.Run())
}

// applyForever applies and releases in turn until it is killed.
func applyForever(text string) int {
	p, err := parse(text)
	if err != nil {
		return 2
	}
	plane, want := &hostPlane{module.Host{Pins: os.Getenv(crashPins), Files: os.Getenv(crashFiles)}}, module.State{Host: p.Host}
	for {
		if _, err := plane.Apply(module.State{}, want); err != nil {
			return 3
		}
		_, _ = os.Stdout.WriteString(".")
		if _, err := plane.Apply(want, module.State{}); err != nil {
			return 4
		}
	}
}

// After kill -9 at any moment the next process completes the change, or restores the former tree
// exactly.
func TestKilledAnywhereItIsLedOnOrBack(t *testing.T) {
	s := newStage(t, "")
	for line := range strings.Lines(formers["htb"]) {
		run(t, "tc", "-n "+s.here.Name+" "+line)
	}
	before := s.show(t)
	const text = "  eth0: {rate: 10Mbit}\n"
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for i := range 12 {
		command := exec.Command("ip", "netns", "exec", s.here.Name, os.Args[0])
		command.Env = append(os.Environ(), crashPolicy+"="+text, crashPins+"="+s.plane.host.Pins, crashFiles+"="+s.plane.host.Files)
		pipe, err := command.StdoutPipe()
		must(t, err)
		must(t, command.Start())
		_, read := pipe.Read(make([]byte, 1)) // it has applied once
		time.Sleep(time.Duration(random.IntN(60_000)) * time.Microsecond)
		must(t, errors.Join(read, command.Process.Kill()))
		if err := command.Wait(); err == nil || !killed(err) {
			t.Fatalf("it ended by itself: %v", err)
		}
		if i%2 == 0 {
			s.apply(t, text)
		}
		if _, err := s.release(); err != nil {
			t.Fatal(err)
		}
		if after := s.show(t); after != before {
			t.Fatalf("after kill %d there is\n%s, before there was\n%s", i, after, before)
		}
	}
}

func killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}
