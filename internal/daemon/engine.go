package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"weir/internal/fault"
	"weir/internal/kernel/cgroup"
	"weir/internal/kernel/netns"
	"weir/limit"
	"weir/policy"
)

// MaxScopes is the number of scopes that the data plane has room for.
const MaxScopes = 10_240

// Engine applies policies on this host. Its folders can be others in tests.
type Engine struct {
	StateDir   string // state, journal, lock
	PinDir     string // in a bpf file system
	CgroupRoot string // where the programs are attached
	// Sockets calls a function for every network namespace whose open sockets are to be adopted and set free.
	Sockets func(func(*netns.Namespace) error) error
}

// New returns the engine of this host.
func New() (*Engine, error) {
	root, err := cgroup.Root()
	if err != nil {
		return nil, err
	}
	return &Engine{StateDir: "/run/weir/policy", PinDir: "/sys/fs/bpf/weir/limit", CgroupRoot: root, Sockets: everywhere}, nil
}

// Outcome is what an apply has done, or what a plan would do.
type Outcome struct {
	Format    string    `json:"format"`
	Steps     []Step    `json:"steps"`
	Changed   bool      `json:"changed"`
	Waiting   []Waiting `json:"waiting,omitempty"`
	Recovered bool      `json:"recovered,omitempty"` // an interrupted apply was completed first
	Restored  bool      `json:"restored,omitempty"`  // what was in force was not in place, or only a part of it
	NotPaced  string    `json:"not_paced,omitempty"` // why open sockets could not be adopted
	held      []held    // what is in force, or would be
}

// Step is what becomes of one scope, and how the data plane does it.
type Step struct {
	policy.Step
	Mechanism string `json:"mechanism,omitempty"` // "" for a scope that waits or goes
	Rebound   bool   `json:"rebound,omitempty"`   // it stands for something else than before
}

// Waiting is a scope whose traffic does not exist yet.
type Waiting struct {
	Scope string `json:"scope"`
	For   string `json:"for"`
	Place string `json:"place,omitempty"` // in the policy file, file:line:column
}

const formatOutcome = "weir-apply/1"

// Plan says what Apply would do. It changes nothing and does not complete an interrupted apply.
func (e *Engine) Plan(want []policy.Scope) (Outcome, error) {
	have, err := (&store{dir: e.StateDir}).read(current)
	if err != nil {
		return Outcome{}, err
	}
	if have == nil {
		have = &state{}
	}
	next, err := e.next(have, want)
	if err != nil {
		return Outcome{}, err
	}
	return e.outcome(have, next)
}

// next numbers and binds the wanted scopes; a scope that stays keeps its number.
func (e *Engine) next(have *state, want []policy.Scope) (*state, error) {
	if len(want) > MaxScopes {
		return nil, fault.New(fault.Usage, "merge scopes", "the policy has %d scopes, and the data plane room for %d", len(want), MaxScopes)
	}
	numbers, used := map[string]int{}, map[int]bool{}
	for _, h := range have.Held {
		numbers[h.Scope.Name], used[h.Index] = h.Index, true
	}
	free := 0
	next := &state{Format: formatState, Applied: time.Now().UTC()}
	look := &binder{root: e.CgroupRoot}
	for _, scope := range want {
		bound, err := look.bind(scope.Applies)
		if err != nil {
			return nil, err
		}
		index, known := numbers[scope.Name]
		if !known {
			for used[free] {
				free++
			}
			index, used[free] = free, true
		}
		next.Held = append(next.Held, held{scope, index, bound})
	}
	return next, nil
}

func (e *Engine) outcome(have, next *state) (Outcome, error) {
	out := Outcome{Format: formatOutcome, Steps: []Step{}, held: next.Held}
	if len(have.Held) > 0 {
		in, err := e.inPlace()
		if err != nil {
			return Outcome{}, err
		}
		out.Restored, out.Changed = !in, !in
	}
	before, after := have.byName(), next.byName()
	for _, step := range policy.Diff(have.scopes(), next.scopes()) {
		h := after[step.Scope.Name]
		was, there := before[step.Scope.Name]
		one := Step{Step: step, Mechanism: h.mechanism(), Rebound: there && step.Action != policy.Remove && was.Bound != h.Bound}
		out.Changed = out.Changed || step.Action != policy.Keep || one.Rebound
		out.Steps = append(out.Steps, one)
	}
	for _, h := range next.Held {
		if h.Bound.Missing != "" {
			out.Waiting = append(out.Waiting, Waiting{Scope: h.Scope.Name, For: h.Bound.Missing})
		}
	}
	return out, nil
}

// Apply makes the wanted scopes the ones in force. After an error the former scopes are in force again.
func (e *Engine) Apply(want []policy.Scope) (Outcome, error) {
	s, err := openStore(e.StateDir)
	if err != nil {
		return Outcome{}, err
	}
	defer s.close()
	have, recovered, err := e.recover(s)
	if err != nil {
		return Outcome{}, err
	}
	next, err := e.next(have, want)
	if err != nil {
		return Outcome{}, err
	}
	return e.lead(s, have, next, recovered)
}

// Rebind makes the scopes in force apply to what their selectors stand for now: a cgroup that came back has another id.
// It changes no limit, and does nothing where none is in force.
func (e *Engine) Rebind() (Outcome, error) {
	s, err := openStore(e.StateDir)
	if err != nil {
		return Outcome{}, err
	}
	defer s.close()
	have, recovered, err := e.recover(s)
	if err != nil || have.Applied.IsZero() {
		return Outcome{Format: formatOutcome}, err
	}
	next, err := e.next(have, have.scopes())
	if err != nil {
		return Outcome{}, err
	}
	next.Applied = have.Applied
	return e.lead(s, have, next, recovered)
}

// lead leads from one state to the next through the journal, unless they are the same and in force.
func (e *Engine) lead(s *store, have, next *state, recovered bool) (Outcome, error) {
	out, err := e.outcome(have, next)
	if err != nil {
		return Outcome{}, err
	}
	out.Recovered = recovered
	if !out.Changed && !have.Applied.IsZero() {
		return out, nil
	}
	out.Changed = true
	if err := limit.CanPin(e.PinDir); err != nil {
		return Outcome{}, err // with nothing begun
	}
	if err := s.write(journal, next); err != nil {
		return Outcome{}, err
	}
	notPaced, err := e.enforce(have, next)
	if err != nil {
		if _, undo := e.enforce(next, have); undo == nil {
			_ = s.remove(journal)
		}
		return Outcome{}, err
	}
	if notPaced != nil {
		out.NotPaced = notPaced.Error()
	}
	return out, s.commit()
}

// inPlace says whether the data plane is attached, with all that it needs, and filled.
func (e *Engine) inPlace() (bool, error) {
	if attached, err := limit.Attached(e.PinDir); err != nil || !attached {
		return false, err
	}
	plane, err := limit.LoadPinned(e.PinDir)
	if err != nil {
		return false, err
	}
	defer func() { _ = plane.Close() }()
	return plane.Active(), nil
}

// recover completes an apply that was interrupted and returns the state in force.
func (e *Engine) recover(s *store) (have *state, recovered bool, err error) {
	if have, err = s.read(current); err != nil {
		return nil, false, err
	}
	if have == nil {
		have = &state{Format: formatState}
	}
	begun, err := s.read(journal)
	if err != nil || begun == nil {
		return have, false, err
	}
	if _, err := e.enforce(have, begun); err != nil {
		return nil, false, fmt.Errorf("complete an interrupted apply: %w", err)
	}
	return begun, true, s.commit()
}

// enforce leads the data plane from one state to another. Every step can be repeated. What is the same in both states is left
// alone, unless the data plane has never been filled: then everything is set, and nothing takes effect before the end.
func (e *Engine) enforce(have, next *state) (notPaced, err error) {
	plane, fresh, err := e.plane()
	if err != nil {
		return nil, err
	}
	defer func() { _ = plane.Close() }()
	had, stays, holders := have.byIndex(), next.byIndex(), next.byBinding()
	var gone, now assignments
	for _, h := range have.Held {
		after, kept := stays[h.Index]
		if kept && after.Bound == h.Bound {
			continue
		}
		if other, held := holders[h.Bound]; held {
			now.add(other)
		} else {
			gone.add(h)
		}
		if kept {
			continue
		}
		if err := errors.Join(plane.Clear(h.Index, limit.Egress), plane.Clear(h.Index, limit.Ingress)); err != nil {
			return nil, err
		}
	}
	for _, h := range next.Held {
		before, there := had[h.Index]
		if there && before.same(h) && plane.Active() {
			continue
		}
		if err := set(plane, h); err != nil {
			return nil, fmt.Errorf("scope %s: %w", h.Scope.Name, err)
		}
		now.add(h)
	}
	if err := arrange(plane, have, next); err != nil {
		return nil, err
	}
	if err := plane.Reassign(gone.Assignments, now.Assignments); err != nil {
		return nil, err
	}
	if err := plane.EndIngress(); err != nil {
		return nil, err
	}
	if !fresh {
		return nil, nil
	}
	return e.Sockets(plane.Adopt), nil
}

// limitOf is one direction of a scope as the data plane takes it.
func limitOf(s policy.Scope, rate *policy.Rate) limit.Limit {
	return limit.Limit{Rate: rate.Rate, Min: rate.Min, Weight: rate.Weight, Burst: rate.Burst, Mark: rate.Mark, Drop: rate.Drop,
		Shadow: s.Shadow, Loopback: s.Loopback}
}

// set puts one scope's limits into the data plane.
func set(plane *limit.DataPlane, h held) error {
	for direction, rate := range map[limit.Direction]*policy.Rate{limit.Egress: h.Scope.Egress, limit.Ingress: h.Scope.Ingress} {
		var err error
		if rate == nil {
			err = plane.Clear(h.Index, direction)
		} else {
			err = plane.Set(h.Index, direction, limitOf(h.Scope, rate))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// plane opens the pinned data plane, or loads, attaches and pins one; fresh says that it was the latter.
func (e *Engine) plane() (plane *limit.DataPlane, fresh bool, err error) {
	in, err := limit.Attached(e.PinDir)
	if err == nil && in {
		if plane, err = limit.LoadPinned(e.PinDir); err == nil {
			plane.AttachedTo(e.CgroupRoot)
		}
		return plane, false, err
	}
	// What a crash between two pins has left, or a cgroup that was removed, or a hand, is of no use.
	if err := limit.Unpin(e.PinDir); err != nil {
		return nil, false, err
	}
	if plane, err = limit.Load(MaxScopes); err != nil {
		return nil, false, err
	}
	if err := plane.Attach(e.CgroupRoot); err != nil {
		_ = plane.Close()
		return nil, false, err
	}
	if err := plane.Pin(e.PinDir); err != nil {
		_ = plane.Close()
		return nil, false, err
	}
	return plane, true, nil
}

// Release ends all limits and removes every trace: attachments, pins, pacing rates, state. It says whether there were any.
func (e *Engine) Release() (released bool, err error) {
	s, err := openStore(e.StateDir)
	if err != nil {
		return false, err
	}
	defer s.close()
	plane, err := limit.LoadForRelease(e.PinDir)
	if err == nil {
		released = true
		if err := limit.Detach(e.PinDir); err != nil {
			_ = plane.Close()
			return false, err
		}
		if err := e.Sockets(plane.Free); err != nil && !errors.Is(err, limit.ErrNoIterator) {
			_ = plane.Close()
			return false, err
		}
		_ = plane.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := errors.Join(limit.Unpin(e.PinDir), s.remove(journal), s.remove(current)); err != nil {
		return false, err
	}
	if err := forgetController(e.StateDir); err != nil {
		return false, err
	}
	// The parent folder goes too if nobody else has pins in it.
	_ = os.Remove(filepath.Dir(e.PinDir))
	return released, nil
}
