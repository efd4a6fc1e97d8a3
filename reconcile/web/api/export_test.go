package api

import (
	"time"
)

const List = accessList

const Watch = accessWatch

const Get = accessGet

const Replace = accessReplace

const Delete = accessDelete

const Pause = accessPause

const RemoveFinalizer = accessRemoveFinalizer

const AnswerCreated = accessCreated

const AnswerNotCreated = accessNotCreated

func (o *Options) SetWatches(v int) *Options {
	o.watches = v
	return o
}

func (o *Options) SetHeartbeat(v time.Duration) *Options {
	o.heartbeat = v
	return o
}
