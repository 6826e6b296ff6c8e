//go:build servers

package kafkabroker_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/brokers"
	"github.com/onceward/onceward/brokers/kafkabroker"
)

// deny takes a right on a topic from a user. Where no other rights were given,
// it takes them too.
func (o *other) deny(t *testing.T, user, topic string, right kmsg.ACLOperation) {
	t.Helper()
	o.rule(t, user, topic, right, kmsg.ACLPermissionTypeDeny)
}

func (o *other) rule(t *testing.T, user, topic string, right kmsg.ACLOperation, how kmsg.ACLPermissionType) {
	t.Helper()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+user, "*", right, how
	req := kmsg.NewPtrCreateACLsRequest()
	req.Creations = append(req.Creations, c)
	res, err := req.RequestWith(t.Context(), o.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// permit takes back what was denied on a topic.
func (o *other) permit(t *testing.T, topic string) {
	t.Helper()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, f)
	res, err := req.RequestWith(t.Context(), o.client)
	if err == nil {
		err = kerr.ErrorForCode(res.Results[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// secured connects as the user that rights can be taken from.
func secured(t *testing.T) kafkabroker.Config {
	t.Helper()
	addrs := os.Getenv("KAFKA_SASL_BROKERS")
	if addrs == "" {
		t.Fatal("KAFKA_SASL_BROKERS is not set: start the server with --sasl")
	}
	pem, err := os.ReadFile(os.Getenv("KAFKA_CA"))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	cfg := quick(strings.Split(addrs, ",")...)
	cfg.TLS = &tls.Config{RootCAs: trusted}
	cfg.SASL = plain.Mechanism{Username: os.Getenv("KAFKA_USER"), Password: os.Getenv("KAFKA_PASSWORD")}
	return cfg
}

// The plain listener is the operator's, who may do all; the consumer comes as a
// user whose rights are taken away.
func TestWithoutTheRightToWriteALetterIsParkedUntilItIsGranted(t *testing.T) {
	shop := newShop(t, newOther(t, server(t)), 1)
	user := os.Getenv("KAFKA_USER")
	shop.b = secured(t)
	shop.do = refuse
	shop.open()
	shop.send(0, "good-0", "bad-0")
	shop.wantPosition(shop.topic, 2)
	for name, right := range map[string]kmsg.ACLOperation{"write": kmsg.ACLOperationWrite, "see": kmsg.ACLOperationDescribe} {
		t.Run(name, func(t *testing.T) {
			shop.t = t
			shop.o.deny(t, user, shop.to().DeadLetter, right)
			defer shop.o.permit(t, shop.to().DeadLetter)
			shop.parkedUntil(name, func() { shop.o.permit(t, shop.to().DeadLetter) }, brokers.ErrUnauthorized)
		})
	}
	shop.t = t
	shop.close()
	// At a start nobody has to wait for it.
	shop.o.deny(t, user, shop.to().DeadLetter, kmsg.ACLOperationDescribe)
	sp := spec()
	sp.Consumer, sp.Topics = shop.name, []string{shop.topic}
	b, err := kafkabroker.Connect(t.Context(), shop.b)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var fault *brokers.StartError
	if _, err := b.Open(t.Context(), sp); !errors.As(err, &fault) || !strings.Contains(err.Error(), shop.to().DeadLetter) {
		t.Errorf("error at the start: %v", err)
	}
}

func TestWithoutTheRightToReadABrowseSaysSo(t *testing.T) {
	o := newOther(t, server(t))
	user := os.Getenv("KAFKA_USER")
	b := connect(t, secured(t)).(kafkabroker.Broker)
	for name, right := range map[string]kmsg.ACLOperation{"read": kmsg.ACLOperationRead, "see": kmsg.ACLOperationDescribe, "settings": kmsg.ACLOperationDescribeConfigs} {
		t.Run(name, func(t *testing.T) {
			topic := o.newTopic(t, 2)
			o.produce(t, topic, outgoing("m", 0, 3)...)
			if all, err := shown(b.Browse(t.Context(), topic, brokers.From{})); err != nil || len(all) != 3 {
				t.Fatalf("before: %v, %v", all, err)
			}
			o.rule(t, user, topic, kmsg.ACLOperationAll, kmsg.ACLPermissionTypeAllow)
			o.deny(t, user, topic, right)
			defer o.permit(t, topic)
			hidden := right != kmsg.ACLOperationRead
			eventually(t, "the right is gone", func() bool {
				infos, err := b.Inspect(t.Context(), []string{topic})
				_, unread := shown(b.Browse(t.Context(), topic, brokers.From{}))
				return err == nil && infos[0].Hidden == hidden && (right == kmsg.ACLOperationDescribeConfigs) == (unread == nil)
			})
			all, err := shown(b.Browse(t.Context(), topic, brokers.From{}))
			if right != kmsg.ACLOperationDescribeConfigs && (!errors.Is(err, brokers.ErrUnauthorized) || !strings.Contains(err.Error(), topic)) {
				t.Errorf("%v, %v", all, err)
			}
			if infos, err := b.Inspect(t.Context(), []string{topic}); err != nil || infos[0].Missing || right == kmsg.ACLOperationDescribeConfigs && infos[0].Messages != 3 {
				t.Errorf("%+v, %v", infos, err)
			}
		})
	}
}
