"""Names of the functions that templates may call, which `states/helpers/` has. None of them changes anything."""

from __future__ import annotations

from collections.abc import Mapping

MODULES: Mapping[str, Mapping[str, str]] = {
    "commands": {"cmd": "exec_code exec_code_all retcode run run_all run_stderr run_stdout script shell"},
    "data": {
        "defaults": "deepcopy get merge update",
        "hashutil": (
            "base64_b64decode base64_b64encode base64_decodestring base64_encodestring digest hmac_compute"
            " hmac_signature md5_digest sha256_digest sha512_digest"
        ),
        "log": "critical debug error exception info profile trace warning",
        "random": "get_str hash rand_int seed str_encode",
        "slsutil": "banner boolstr deserialize merge merge_all renderer serialize update",
        "test": "arg echo false false_ get_opts kwarg ping true true_",
    },
    "facts": {
        "config": "get manage_mode merge option",
        "grains": "equals fetch filter_by get has_value item items ls",
        "match": "compound filter_by glob grain grain_pcre ipcidr list pcre pillar pillar_pcre search_by",
        "pillar": "data fetch filter_by get item items keys ls raw",
    },
    "files": {
        "cp": "get_file_str hash_file list_master list_master_dirs list_states",
        "file": (
            "access basename contains contains_regex directory_exists dirname file_exists get_gid get_group"
            " get_hash get_mode get_sum get_uid get_user gid_to_group group_to_gid is_blkdev is_chrdev is_fifo"
            " is_link join lstat normpath pardir path_exists_glob read readdir readlink search stats uid_to_user"
            " check_hash user_to_uid"
        ),
        "slsutil": "dir_exists file_exists findup path_exists",
    },
    "find": {"file": "find grep"},
    "host": {
        "cmd": "has_exec which",
        "environ": "get has_value",
        "group": "getent info",
        "network": (
            "calc_net convert_cidr get_fqdn get_hostname in_subnet interface_ip ip_addrs ip_addrs6 ipaddrs"
            " ipaddrs6 is_loopback is_private"
        ),
        "user": "get_uid getent info list_groups list_users primary_group",
    },
    "interfaces": {
        "pkg": (
            "available_version file_dict file_list get_repo group_list info_installed latest_version list_holds"
            " list_patches list_pkgs list_repos list_upgrades owner upgrade_available verify version version_cmp"
        ),
        "service": "available disabled enabled missing",
    },
    "others": {
        "alternatives": "show_current",
        "dig": "A AAAA",
        "dnsutil": "serial",
        "git": "current_branch",
        "hosts": "get_alias get_ip has_pair list_hosts",
        "mine": "get",
        "network": "ip_in_subnet",
        "publish": "full_data publish runner",
    },
    "system": {
        "mount": "active fstab is_mounted",
        "network": "hw_addr interfaces",
        "status": "loadavg nproc time uptime",
        "sysctl": "get",
        "test": "provider version",
        "timezone": "get_offset get_zone get_zonecode",
    },
}
"""Module in `states/helpers/` -> its functions, by Salt's modules."""
NAMES: Mapping[str, str] = {
    f"{module}.{name}": home
    for home, calls in MODULES.items()
    for module, names in calls.items()
    for name in names.split()
}
"""ExecutionFunction -> module in `states/helpers/`."""
