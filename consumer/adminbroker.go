package consumer

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/deadletter"
	"github.com/onceward/onceward/internal/adminapi"
)

// browser is the consumer's broker as one that can be browsed.
func (a *admin) browser() (brokers.Browser, *refusal) {
	if b, ok := a.c.cfg.Broker.(brokers.Browser); ok {
		return b, nil
	}
	return nil, refuse(http.StatusNotImplemented, adminapi.CodeUnsupported, "the consumer's broker cannot be browsed")
}

// browse shows what a topic holds.
func (a *admin) browse(w http.ResponseWriter, r *request) *refusal {
	q := r.URL.Query()
	topic := q.Get("topic")
	browser, refusal := a.browser()
	var from brokers.From
	if refusal == nil {
		from, refusal = fromOf(q)
	}
	if refusal == nil {
		ctx, cancel := context.WithTimeout(r.Context(), callFor)
		refusal = a.topics.refuse(ctx, []string{topic}, false)
		cancel()
	}
	if refusal != nil {
		return refusal
	}
	return stream(w, r, func(ctx context.Context, l *lines) error {
		var lane *brokers.Lane
		for d, err := range browser.Browse(ctx, topic, from) {
			if err != nil {
				return err
			}
			if d.Lane != lane {
				lane = d.Lane
				if err := l.send(&adminapi.Line{Lane: adminapi.OfLane(lane)}); err != nil {
					return err
				}
			}
			if err := l.send(&adminapi.Line{Message: shown(d, r.role)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// shown is a message, without the token of a copy that is on its way where the
// role could not use it.
func shown(d *brokers.Delivery, role AdminRole) *adminapi.Message {
	m := adminapi.OfDelivery(d)
	if role >= AdminReplay {
		return m
	}
	for i := range m.Headers {
		if strings.EqualFold(string(m.Headers[i].Name), deadletter.TokenHeader) {
			m.Headers[i].Value = nil // the slice is the message's own
		}
	}
	return m
}

// fromOf reads where to begin.
func fromOf(q url.Values) (from brokers.From, _ *refusal) {
	wrong := func(why string) (brokers.From, *refusal) {
		return from, refuse(http.StatusBadRequest, adminapi.CodeRequest, why)
	}
	if q.Has("since") {
		since, err := adminapi.ParseTime(q.Get("since"))
		if err != nil {
			return wrong("since " + err.Error())
		}
		from.Since = since.Time()
	}
	for _, text := range q["offset"] {
		p, o, _ := strings.Cut(text, ":")
		partition, err := strconv.ParseInt(p, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if err != nil || err2 != nil || partition < 0 || offset < 0 || partition > math.MaxInt32 {
			return wrong("offset must be PARTITION:OFFSET")
		}
		if from.Offsets == nil {
			from.Offsets = map[int32]int64{}
		}
		if _, twice := from.Offsets[int32(partition)]; twice {
			return wrong("offset names a partition twice")
		}
		from.Offsets[int32(partition)] = offset
	}
	return from, nil
}

// inspect says how topics are set up.
func (a *admin) inspect(w http.ResponseWriter, r *request) *refusal {
	var q adminapi.InspectRequest
	browser, refusal := a.browser()
	if refusal == nil {
		refusal = readBody(w, r, &q)
	}
	if refusal == nil {
		refusal = tooMany(len(q.Topics), "topics", adminapi.MaxKeys)
	}
	if refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(r.Context(), callFor)
	defer cancel()
	topics := make([]string, len(q.Topics))
	for i, topic := range q.Topics {
		topics[i] = string(topic)
	}
	if refusal := a.topics.refuse(ctx, topics, false); refusal != nil {
		return refusal
	}
	infos, err := browser.Inspect(ctx, topics)
	if err != nil {
		return failed(err)
	}
	answer := adminapi.InspectResponse{Topics: make([]adminapi.TopicInfo, len(infos))}
	for i := range infos {
		answer.Topics[i] = adminapi.OfTopicInfo(&infos[i])
	}
	return served(w, &answer)
}

// publish sends copies: all of the messages go to topics that they may go to,
// or none is sent.
func (a *admin) publish(w http.ResponseWriter, r *request) *refusal {
	var q adminapi.PublishRequest
	refusal := readBody(w, r, &q)
	if refusal == nil {
		refusal = tooMany(len(q.Messages), "messages", adminapi.MaxMessages)
	}
	if refusal == nil && len(q.Messages) == 0 {
		refusal = refuse(http.StatusBadRequest, adminapi.CodeRequest, "messages are missing")
	}
	if refusal == nil {
		refusal = a.writable() // who has not joined may be another's twin
	}
	if refusal != nil {
		return refusal
	}
	ctx, cancel := context.WithTimeout(r.Context(), callFor)
	defer cancel()
	messages := make([]brokers.Outgoing, len(q.Messages))
	to := map[string]int{}
	for i := range q.Messages {
		messages[i] = q.Messages[i].Broker()
		to[messages[i].Topic]++
	}
	if refusal := a.topics.refuse(ctx, slices.Sorted(maps.Keys(to)), true); refusal != nil {
		return refusal
	}
	errs := brokers.Publish(ctx, a.c.cfg.Broker, messages)
	answer := adminapi.PublishResponse{Errors: make([]*adminapi.Fault, len(messages))}
	var first error
	notStored := 0
	for i, err := range errs {
		answer.Errors[i] = adminapi.OfError(err)
		if err != nil {
			first, notStored = cmp.Or(first, err), notStored+1
		}
	}
	attrs := []any{"who", r.who, "messages", len(messages), "topics", len(to), "first", messages[0].Topic}
	if first != nil {
		attrs = append(attrs, "failed", notStored, "error", first)
	}
	a.log.Info("admin published", attrs...)
	return served(w, &answer)
}
