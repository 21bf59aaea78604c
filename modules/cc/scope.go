// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"fmt"
	"io"
	"os"
	"time"

	"weir/core/match"
	"weir/core/module"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/kernel/cgroup"
)

// Counts holds the counters of connections of scopes.
type Counts struct {
	Assigned uint64 `json:"assigned"` // given the congestion control
	NoECN    uint64 `json:"no_ecn"`   // left alone: the peer does not take part in ECN
	Chosen   uint64 `json:"chosen"`   // left alone: the application has chosen a congestion control itself
	Failed   uint64 `json:"failed"`   // rejected by the kernel
	Received
}

// Received holds the counters of receiver-side control.
type Received struct {
	Connections  uint64 `json:"connections"`   // with a controlled receive window
	NoTimestamps uint64 `json:"no_timestamps"` // without, because the peer lacks TCP timestamps
	Slowdowns    uint64 `json:"slowdowns"`     // of their windows
	Reductions   uint64 `json:"reductions"`    // of their windows, by losses
	Steps        uint64 `json:"steps"`         // acknowledgments that were looked at
	WindowSum    uint64 `json:"window_sum"`    // bytes: sum of the windows after each step
	DelaySum     uint64 `json:"delay_sum"`     // microseconds: of the queueing delays
}

// Window returns the mean window in bytes.
func (r Received) Window() uint64 { return r.WindowSum / max(1, r.Steps) }

// Delay is the mean of the queueing delays.
func (r Received) Delay() time.Duration {
	return time.Duration(r.DelaySum/max(1, r.Steps)) * time.Microsecond
}

// add adds other counts.
func (c *Counts) add(other Counts) {
	c.Assigned += other.Assigned
	c.NoECN += other.NoECN
	c.Chosen += other.Chosen
	c.Failed += other.Failed
	c.Received.add(other.Received)
}

func (r *Received) add(other Received) {
	r.Connections += other.Connections
	r.NoTimestamps += other.NoTimestamps
	r.Slowdowns += other.Slowdowns
	r.Reductions += other.Reductions
	r.Steps += other.Steps
	r.WindowSum += other.WindowSum
	r.DelaySum += other.DelaySum
}

// Attach sets the congestion control of new connections of the cgroup at path and its descendants
// when their handshake completes, and negotiates ECN if the control needs it. Foreign programs of
// the cgroup stay.
func (i *Installed) Attach(path string) error {
	a, err := i.assign(path)
	if err == nil {
		i.scopes = append(i.scopes, a)
	}
	return err
}

// AttachUntil is Attach until the closer is closed. It is safe for concurrent use.
func (i *Installed) AttachUntil(path string) (io.Closer, error) {
	a, err := i.assign(path)
	if err != nil {
		return nil, err
	}
	return closer(a.close), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// assign gives the control to a cgroup's connections.
func (i *Installed) assign(path string) (*assigner, error) {
	var scope assignCcScope
	copy(scope.Control[:], i.name)
	if i.kind.needsECN {
		scope.Flags |= assignCcScopeFlagsCC_SCOPE_ECN
	}
	return assignTo(path, scope)
}

// assignTo loads and attaches a program for one cgroup's connections.
func assignTo(path string, scope assignCcScope) (*assigner, error) {
	id, err := cgroup.Cgroup{Path: path}.ID()
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("attach to cgroup: %w", err), fault.Usage, "name a folder of the cgroup v2 tree")
	}
	a, err := loadAssigner(1, assignProgAssignSockops, nil)
	if err != nil {
		return nil, err
	}
	if err = a.set([]uint32{0}, []assignCcScope{scope}); err == nil {
		alone := module.Bound{Index: 0, Binding: selector.Binding{Key: match.OfCgroup(id)}}
		err = a.reassign(module.State{}, module.State{Scopes: []module.Bound{alone}}, match.Key{}, 0)
	}
	if err == nil {
		err = a.attach(path)
	}
	if err != nil {
		_ = a.close()
		return nil, err
	}
	return a, nil
}

// Counts sums the counters of the scopes.
func (i *Installed) Counts() (Counts, error) {
	var sum Counts
	for _, s := range i.scopes {
		counts, err := readCounts(s.objects.AssignCounts, 0)
		if err != nil {
			return Counts{}, err
		}
		sum.add(counts)
	}
	return sum, nil
}

// exists reports whether a file exists and is visible to this user.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
