package group

import (
	"context"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/syncgroup"

	"github.com/onceward/onceward/brokers/kafkabroker/internal/cluster"
	"github.com/onceward/onceward/brokers/kafkabroker/internal/coop"
)

// coordinator remembers which broker keeps the group.
type coordinator struct {
	cluster *cluster.Cluster
	group   string

	mu   sync.Mutex
	node int32 // -1: to be asked for
}

func (c *coordinator) find(ctx context.Context) (int32, error) {
	c.mu.Lock()
	node := c.node
	c.mu.Unlock()
	if node >= 0 {
		return node, nil
	}
	node, err := c.cluster.Coordinator(ctx, c.group)
	if err != nil {
		return -1, err
	}
	c.mu.Lock()
	c.node = node
	c.mu.Unlock()
	return node, nil
}

func (c *coordinator) forget(node int32) {
	c.mu.Lock()
	if c.node == node {
		c.node = -1
	}
	c.mu.Unlock()
}

// moved: the broker that was asked does not keep the group (any more).
func moved(code int16) bool {
	return code == int16(kafka.NotCoordinatorForGroup) || code == int16(kafka.GroupCoordinatorNotAvailable)
}

// call asks the coordinator, and forgets it when it does not answer or is not
// the one. The bound is needed: without a deadline kafka-go waits for ever.
func call[T protocol.Message](ctx context.Context, c *coordinator, limit time.Duration, req protocol.Message, code func(T) int16) (res T, err error) {
	node, err := c.find(ctx)
	if err != nil {
		return res, err
	}
	send := c.cluster.Call
	if own, ok := req.(cluster.Chooser); ok {
		send = func(ctx context.Context, node int32, limit time.Duration, _ protocol.Message) (protocol.Message, error) {
			return c.cluster.Raw(ctx, node, limit, own)
		}
	}
	r, err := send(ctx, node, limit, req)
	if err != nil {
		if ctx.Err() != context.Canceled {
			c.forget(node)
		}
		return res, err
	}
	res = r.(T)
	if moved(code(res)) {
		c.forget(node)
	}
	return res, nil
}

func codeError(c int16) error {
	if c == 0 {
		return nil
	}
	return kafka.Error(c)
}

func (m *Member) join(ctx context.Context, id string, s subscription) (*joingroup.Response, error) {
	req := &joingroup.Request{
		GroupID: m.cfg.Group, MemberID: id, GroupInstanceID: m.cfg.Instance, ProtocolType: "consumer",
		SessionTimeoutMS: int32(m.cfg.Session.Milliseconds()), RebalanceTimeoutMS: int32(m.cfg.Rebalance.Milliseconds()),
		Protocols: []joingroup.RequestProtocol{{Name: protocolName, Metadata: s.encode()}},
	}
	res, err := call(ctx, &m.coordinator, m.cfg.Rebalance+cluster.Short, req, func(r *joingroup.Response) int16 { return r.ErrorCode })
	if err != nil {
		return nil, err
	}
	if kafka.Error(res.ErrorCode) == kafka.MemberIDRequired {
		m.mu.Lock()
		m.id = res.MemberID
		m.mu.Unlock()
	}
	return res, codeError(res.ErrorCode)
}

func (m *Member) sync(ctx context.Context, id string, generation int32, plan map[string][]coop.Partition) ([]coop.Partition, error) {
	req := &syncgroup.Request{
		GroupID: m.cfg.Group, GenerationID: generation, MemberID: id, GroupInstanceID: m.cfg.Instance,
		ProtocolType: "consumer", ProtocolName: protocolName,
	}
	for who, ps := range plan {
		req.Assignments = append(req.Assignments, syncgroup.RequestAssignment{MemberID: who, Assignment: encodeAssignment(ps)})
	}
	res, err := call(ctx, &m.coordinator, m.cfg.Rebalance+cluster.Short, req, func(r *syncgroup.Response) int16 { return r.ErrorCode })
	if err != nil {
		return nil, err
	}
	if err := codeError(res.ErrorCode); err != nil {
		return nil, err
	}
	return decodeAssignment(res.Assignments)
}

func (m *Member) heartbeat(ctx context.Context, id string, generation int32) error {
	req := &heartbeatRequest{client: m.cfg.Cluster.ClientID(), group: m.cfg.Group, member: id, instance: m.cfg.Instance, generation: generation}
	limit := max(m.cfg.Heartbeat, m.cfg.Session/3)
	res, err := call(ctx, &m.coordinator, limit, req, func(r *heartbeatAnswer) int16 { return r.code })
	if err != nil {
		return err
	}
	return codeError(res.code)
}

// leave is a courtesy: without it the others wait for the session timeout.
func (m *Member) leave() {
	m.mu.Lock()
	id := m.id
	m.mu.Unlock()
	if id == "" || m.cfg.Instance != "" || m.alive.Err() != nil {
		return
	}
	// The caller's context has ended by now.
	ctx, cancel := context.WithTimeout(m.alive, leaving)
	defer cancel()
	req := &leaveRequest{client: m.cfg.Cluster.ClientID(), group: m.cfg.Group, member: id}
	if _, err := call(ctx, &m.coordinator, leaving, req, func(r *leaveAnswer) int16 { return r.code }); err != nil {
		m.trouble(err)
	}
}

// leaving bounds the last request.
const leaving = 2 * time.Second
