"""The messages of etcd's API version 3 that the driver uses, and its methods.

Names, numbers and types are those of etcd's published protocol (etcdserverpb/rpc.proto, mvccpb/kv.proto, 3.4).
"""

from __future__ import annotations

from holdfast.agent.protobuf_messages import classes

MESSAGES: dict[str, str] = {
    "ResponseHeader": "1 cluster_id uint64, 2 member_id uint64, 3 revision int64, 4 raft_term uint64",
    "KeyValue": "1 key bytes, 2 create_revision int64, 3 mod_revision int64, 4 version int64, 5 value bytes, "
    "6 lease int64",
    "Event": "1 type enum, 2 kv KeyValue, 3 prev_kv KeyValue",
    "RangeRequest": "1 key bytes, 2 range_end bytes, 3 limit int64, 4 revision int64, 5 sort_order enum, "
    "6 sort_target enum, 7 serializable bool, 8 keys_only bool, 9 count_only bool, 10 min_mod_revision int64",
    "RangeResponse": "1 header ResponseHeader, 2 kvs *KeyValue, 3 more bool, 4 count int64",
    "PutRequest": "1 key bytes, 2 value bytes, 3 lease int64",
    "PutResponse": "1 header ResponseHeader",
    "DeleteRangeRequest": "1 key bytes, 2 range_end bytes",
    "DeleteRangeResponse": "1 header ResponseHeader, 2 deleted int64",
    "RequestOp": "1 request_range ?RangeRequest, 2 request_put ?PutRequest, 3 request_delete_range ?DeleteRangeRequest",
    "ResponseOp": "1 response_range ?RangeResponse, 2 response_put ?PutResponse, "
    "3 response_delete_range ?DeleteRangeResponse",
    "Compare": "1 result enum, 2 target enum, 3 key bytes, 4 version ?int64, 5 create_revision ?int64, "
    "6 mod_revision ?int64, 7 value ?bytes, 8 lease ?int64, 64 range_end bytes",
    "TxnRequest": "1 compare *Compare, 2 success *RequestOp, 3 failure *RequestOp",
    "TxnResponse": "1 header ResponseHeader, 2 succeeded bool, 3 responses *ResponseOp",
    "CompactionRequest": "1 revision int64, 2 physical bool",
    "CompactionResponse": "1 header ResponseHeader",
    "WatchCreateRequest": "1 key bytes, 2 range_end bytes, 3 start_revision int64, 4 progress_notify bool, "
    "8 fragment bool",
    "WatchProgressRequest": "",
    "WatchRequest": "1 create_request ?WatchCreateRequest, 3 progress_request ?WatchProgressRequest",
    "WatchResponse": "1 header ResponseHeader, 2 watch_id int64, 3 created bool, 4 canceled bool, "
    "5 compact_revision int64, 6 cancel_reason string, 7 fragment bool, 11 events *Event",
    "LeaseGrantRequest": "1 TTL int64, 2 ID int64",
    "LeaseGrantResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64, 4 error string",
    "LeaseRevokeRequest": "1 ID int64",
    "LeaseRevokeResponse": "1 header ResponseHeader",
    "LeaseKeepAliveRequest": "1 ID int64",
    "LeaseKeepAliveResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "LeaseTimeToLiveRequest": "1 ID int64, 2 keys bool",
    "LeaseTimeToLiveResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64, 4 grantedTTL int64, 5 keys *bytes",
    "AuthenticateRequest": "1 name string, 2 password string",
    "AuthenticateResponse": "1 header ResponseHeader, 2 token string",
}
"""Message -> its fields, in the notation of `classes`."""

METHODS: dict[str, tuple[str, str]] = {
    "/etcdserverpb.KV/Range": ("RangeRequest", "RangeResponse"),
    "/etcdserverpb.KV/Txn": ("TxnRequest", "TxnResponse"),
    "/etcdserverpb.KV/Compact": ("CompactionRequest", "CompactionResponse"),
    "/etcdserverpb.Watch/Watch": ("WatchRequest", "WatchResponse"),
    "/etcdserverpb.Lease/LeaseGrant": ("LeaseGrantRequest", "LeaseGrantResponse"),
    "/etcdserverpb.Lease/LeaseRevoke": ("LeaseRevokeRequest", "LeaseRevokeResponse"),
    "/etcdserverpb.Lease/LeaseKeepAlive": ("LeaseKeepAliveRequest", "LeaseKeepAliveResponse"),
    "/etcdserverpb.Lease/LeaseTimeToLive": ("LeaseTimeToLiveRequest", "LeaseTimeToLiveResponse"),
    "/etcdserverpb.Auth/Authenticate": ("AuthenticateRequest", "AuthenticateResponse"),
}
"""Path of a method -> its request and its response."""

EQUAL, GREATER, LESS = 0, 1, 2
"""Compare.result: the value in the database is equal to, greater or less than the given one."""
VERSION, CREATED, MODIFIED, LEASE = 0, 1, 2, 4
"""Compare.target."""
DELETED = 1
"""Event.type; 0 is a put."""


message = classes("etcdserverpb", MESSAGES)
"""Name -> class of the message."""
