// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/modules/fleet/leader"
)

// Store is the lasting state of a fleet.
type Store struct {
	state jetstream.KeyValue // limits, members
	lease jetstream.KeyValue // leader; entries end after the TTL
	ttl   time.Duration
}

// Keys of the buckets.
const (
	limitsKey  = "limits"
	membersKey = "members"
	leaderKey  = "leader"
)

// patience bounds one operation of the store.
const patience = 2 * time.Second

// OpenStore opens the buckets, or makes them. replicas is 1, or 3 for a cluster; ttl is the lease
// of a leader.
func (c *Conn) OpenStore(ctx context.Context, replicas int, ttl time.Duration) (*Store, error) {
	js, err := jetstream.New(c.nats)
	if err != nil {
		return nil, err
	}
	s := &Store{ttl: ttl}
	for _, b := range []struct {
		to     *jetstream.KeyValue
		config jetstream.KeyValueConfig
	}{
		{&s.state, jetstream.KeyValueConfig{Bucket: "weir-fleet-" + c.fleet, History: 1, Replicas: replicas}},
		{&s.lease, jetstream.KeyValueConfig{Bucket: "weir-leader-" + c.fleet, History: 1, Replicas: replicas, TTL: ttl}},
	} {
		if *b.to, err = js.CreateOrUpdateKeyValue(ctx, b.config); err != nil {
			return nil, fmt.Errorf("open key-value bucket %s: %w", b.config.Bucket, err)
		}
	}
	return s, nil
}

// Lead tries to become the leader. The epoch is 0 if there is another one.
func (s *Store) Lead(ctx context.Context, name string) (epoch uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	epoch, err = s.lease.Create(ctx, leaderKey, []byte(name))
	if errors.Is(err, jetstream.ErrKeyExists) {
		return 0, nil
	}
	return epoch, err
}

// Renew renews the lease of a leader; revision is that of Lead or the last Renew. An error means
// that it may have ended.
func (s *Store) Renew(ctx context.Context, name string, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.ttl/2)
	defer cancel()
	return s.lease.Update(ctx, leaderKey, []byte(name), revision)
}

// Resign ends the lease, so that another leader can follow at once.
func (s *Store) Resign(revision uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.lease.Delete(ctx, leaderKey, jetstream.LastRevision(revision))
}

// Document is a value of the store with its revision, 0 if there is none.
type Document struct {
	Text     []byte
	Revision uint64
}

func (s *Store) read(ctx context.Context, key string) (Document, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	entry, err := s.state.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Document{}, nil
	}
	if err != nil {
		return Document{}, fmt.Errorf("read %s of the fleet: %w", key, err)
	}
	return Document{entry.Value(), entry.Revision()}, nil
}

// write replaces a value if it is still of a revision, so that a former leader cannot overwrite the
// changes of its successor.
func (s *Store) write(ctx context.Context, key string, text []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	next, err := s.state.Update(ctx, key, text, revision)
	if err != nil {
		return revision, fmt.Errorf("save %s of the fleet: %w", key, err)
	}
	return next, nil
}

// Limits reads the file of shared limits.
func (s *Store) Limits(ctx context.Context) (Document, error) { return s.read(ctx, limitsKey) }

// SetLimits saves the file of shared limits.
func (s *Store) SetLimits(ctx context.Context, text []byte, revision uint64) (uint64, error) {
	return s.write(ctx, limitsKey, text, revision)
}

// Members reads the members, and saves them again, which makes saves of a former leader fail.
func (s *Store) Members(ctx context.Context) (all []leader.Member, revision uint64, err error) {
	d, err := s.read(ctx, membersKey)
	if err != nil {
		return nil, 0, err
	}
	if d.Revision > 0 {
		if err := json.Unmarshal(d.Text, &all); err != nil {
			return nil, 0, fmt.Errorf("read members of the fleet: %w", err)
		}
	}
	revision, err = s.SetMembers(ctx, all, d.Revision)
	return all, revision, err
}

// SetMembers saves the members.
func (s *Store) SetMembers(ctx context.Context, all []leader.Member, revision uint64) (uint64, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return revision, err
	}
	return s.write(ctx, membersKey, text, revision)
}
