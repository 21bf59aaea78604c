// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weir/internal/atomicfile"
	"weir/kernel/clock"
)

// state is the file of the membership: floors and boot number for the next daemon, the rest for
// status.
type state struct {
	Boot    uint64  `json:"boot"`
	Epoch   uint64  `json:"epoch"`
	Problem string  `json:"problem,omitempty"` // of the connection
	Claims  []claim `json:"claims"`
}

// claim is one limit that follows a shared one.
type claim struct {
	Scope     string        `json:"scope"`
	Direction string        `json:"direction"`
	Limit     string        `json:"limit"`
	Rate      float64       `json:"rate_bps"`
	Floor     float64       `json:"floor_bps"`
	Used      float64       `json:"used_bps"`
	Until     time.Duration `json:"until_ns"` // CLOCK_MONOTONIC; 0 at the floor
	Reason    string        `json:"reason,omitempty"`
}

// lease returns the remaining lease. After its end a claim has its floor although the file may not
// say so.
func (c claim) lease() time.Duration {
	if c.Until == 0 {
		return 0
	}
	return max(0, c.Until-time.Duration(clock.Now()))
}

// settle gives a claim with an ended lease its floor.
func (c *claim) settle() {
	if c.Until != 0 && c.lease() == 0 {
		c.Rate, c.Until = c.Floor, 0
	}
}

func (s state) problem() string {
	if s.Problem == "" {
		return "the daemon does not run, or has just started"
	}
	return s.Problem
}

func (p *plane) file() string { return filepath.Join(p.host.Files, "member.json") }

// readFile reads the file; without one the zero value.
func readFile(path string) (s state, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read membership of the fleet: %w", err)
	}
	for i := range s.Claims {
		s.Claims[i].settle()
	}
	return s, nil
}

func (s state) write(path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, 0o600, text)
}
