// Package address reads where dead letters lie, from a text such as
// kafka://broker:9092/orders.billing.dlq, and connects to it.
package address

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Address is where dead letters lie. Its text has a password in it at times,
// so that only [Address.String] may be shown.
type Address struct {
	Scheme string // kafka or nats
	Hosts  []string
	Stream string // nats
	// Topic is the dead-letter topic, or the subject on JetStream, which may be
	// empty.
	Topic string
	// Consumer and Source, the topic or stream that it reads, as far as the
	// names of onceward's own destinations tell.
	Consumer string
	Source   string
	// Named says that the topic's name is that of a destination of onceward.
	Named bool

	user, password string
	options        url.Values
}

// options of both schemes, and of each.
var options = map[string][]string{
	"":      {"tls", "ca", "cert", "key", "user", "password-file", "consumer", "source"},
	"kafka": {"sasl"},
	"nats":  {"subject", "creds", "nkey", "token-file"},
}

// Usage says what [Parse] reads, for a command's help.
const Usage = `kafka://HOST:PORT[,HOST:PORT…]/TOPIC[?sasl=plain|scram-sha-256|scram-sha-512]
nats://HOST:PORT[,HOST:PORT…]/STREAM?subject=SUBJECT[&creds=FILE | &nkey=FILE | &token-file=FILE]
and for both: user=NAME password-file=FILE (or USER:PASSWORD@ before the hosts),
tls=true ca=FILE cert=FILE key=FILE, consumer=NAME source=TOPIC where the name of
the topic does not say whose letters it has`

// Parse reads an address. It opens nothing.
//
// Errors: what is wrong with it, without repeating any of it but names.
func Parse(text string) (*Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "kafka" && scheme != "nats" {
		return nil, errors.New("address must begin with kafka:// or nats://")
	}
	a := &Address{Scheme: scheme, options: url.Values{}}
	rest, query, _ := strings.Cut(rest, "?")
	if err := a.readOptions(query); err != nil {
		return nil, err
	}
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if err := a.readUser(authority[:at]); err != nil {
			return nil, err
		}
		authority = authority[at+1:]
	}
	port := map[string]string{"kafka": ":9092", "nats": ":4222"}[scheme]
	for host := range strings.SplitSeq(authority, ",") {
		host = strings.TrimSpace(host)
		if host == "" || strings.ContainsAny(host, "@/? ") {
			return nil, errors.New("address has no host, or an empty one")
		}
		if name := host[strings.LastIndexByte(host, ']')+1:]; !strings.Contains(name, ":") {
			host += port
		}
		a.Hosts = append(a.Hosts, host)
	}
	name, err := url.PathUnescape(path)
	if err != nil || name == "" || strings.Contains(name, "/") {
		return nil, errors.New("address must name one topic or stream after the hosts: " + scheme + "://HOST/NAME")
	}
	if scheme == "kafka" {
		a.Topic = name
	} else {
		a.Stream, a.Topic = name, a.options.Get("subject")
	}
	return a, a.whose()
}

func (a *Address) readOptions(query string) error {
	parsed, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("address has options after the ? that cannot be read")
	}
	known := slices.Concat(options[""], options[a.Scheme])
	for name, values := range parsed {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("address has an unknown option; those of %s are %s", a.Scheme, strings.Join(known, ", "))
		case len(values) != 1 || values[0] == "":
			return fmt.Errorf("option %s of the address must be given once, with a value", name)
		}
	}
	a.options = parsed
	return nil
}

func (a *Address) readUser(info string) error {
	user, password, _ := strings.Cut(info, ":")
	var errUser, errPassword error
	a.user, errUser = url.PathUnescape(user)
	a.password, errPassword = url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return errors.New("user or password in the address cannot be read: write a % as %25")
	}
	return nil
}

// whose finds the consumer and its source by the names of its destinations:
// SOURCE.CONSUMER.dlq on Kafka, where a consumer's name has no dots, and the
// subject STREAM_DLQ.CONSUMER on JetStream.
func (a *Address) whose() error {
	switch a.Scheme {
	case "kafka":
		if name, ok := strings.CutSuffix(a.Topic, ".dlq"); ok {
			if dot := strings.LastIndexByte(name, '.'); dot > 0 && dot < len(name)-1 {
				a.Source, a.Consumer, a.Named = name[:dot], name[dot+1:], true
			}
		}
	case "nats":
		if source, ok := strings.CutSuffix(a.Stream, "_DLQ"); ok && source != "" {
			a.Source = source
			if consumer, ok := strings.CutPrefix(a.Topic, a.Stream+"."); ok && !strings.ContainsAny(consumer, ".*>") {
				a.Consumer, a.Named = consumer, true
			}
		}
	}
	if c := a.options.Get("consumer"); c != "" {
		a.Consumer = c
	}
	if s := a.options.Get("source"); s != "" {
		a.Source = s
	}
	if a.Scheme == "nats" && a.Topic == "" {
		if a.Consumer == "" {
			return errors.New("address must say which letters of the stream: ?subject=" + a.Stream + ".CONSUMER")
		}
		a.Topic, a.Named = a.Stream+"."+a.Consumer, a.Source != ""
	}
	return nil
}

// String is the address without any secret.
func (a *Address) String() string {
	name := a.Topic
	if a.Scheme == "nats" {
		name = a.Stream + "?subject=" + a.Topic
	}
	return a.Scheme + "://" + strings.Join(a.Hosts, ",") + "/" + name
}

// login is the name and password to use, from the address or from files.
func (a *Address) login() (user, password string, err error) {
	user, password = a.user, a.password
	if u := a.options.Get("user"); u != "" {
		user = u
	}
	if file := a.options.Get("password-file"); file != "" {
		password, err = secret(file)
	}
	return user, password, err
}

// secret is the first line of a file.
func secret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimRight(line, "\r"), nil
}
