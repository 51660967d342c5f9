"""Every third-party library, as the system's packages provide it."""

load("//third_party:pkg_config.bzl", "pkg_config_repository")

def system_libs():
    """Declares one repository per library; see packages.txt for the packages."""
    pkg_config_repository(
        name = "absl",
        apt = ["libabsl-dev"],
        modules = {
            "algorithm": ["absl_algorithm_container"],
            "cleanup": ["absl_cleanup"],
            "flat_hash_map": ["absl_flat_hash_map"],
            "flat_hash_set": ["absl_flat_hash_set"],
            "function_ref": ["absl_function_ref"],
            "hash": ["absl_hash"],
            "inlined_vector": ["absl_inlined_vector"],
            "numeric": ["absl_bits", "absl_int128"],
            "span": ["absl_span"],
            "status": ["absl_status"],
            "statusor": ["absl_statusor"],
            "strings": ["absl_strings", "absl_str_format", "absl_cord"],
            "time": ["absl_time"],
        },
    )
    pkg_config_repository(name = "benchmark", apt = ["libbenchmark-dev"], modules = {"benchmark": ["benchmark"]}, optional = True)
    pkg_config_repository(name = "cli11", apt = ["libcli11-dev"], plain = {"cli11": []}, headers = ["/usr/include/CLI/CLI.hpp"])
    pkg_config_repository(name = "dnnl", apt = ["libdnnl-dev"], plain = {"dnnl": ["-ldnnl"]}, headers = ["/usr/include/dnnl.hpp"])
    pkg_config_repository(name = "glog", apt = ["libgoogle-glog-dev"], modules = {"glog": ["libglog"]})
    pkg_config_repository(name = "grpc", apt = ["libgrpc++-dev", "protobuf-compiler-grpc"], modules = {"grpc++": ["grpc++"]})
    pkg_config_repository(name = "gtest", apt = ["libgmock-dev"], modules = {"gtest": ["gmock"], "gtest_main": ["gmock_main"]})
    pkg_config_repository(name = "hwloc", apt = ["libhwloc-dev"], modules = {"hwloc": ["hwloc"]})
    pkg_config_repository(name = "json", apt = ["nlohmann-json3-dev"], plain = {"json": []}, headers = ["/usr/include/nlohmann/json.hpp"])
    pkg_config_repository(name = "openssl", apt = ["libssl-dev"], modules = {"crypto": ["libcrypto"]})
    pkg_config_repository(name = "protobuf", apt = ["libprotobuf-dev", "protobuf-compiler"], modules = {"protobuf": ["protobuf"]})
    pkg_config_repository(name = "re2", apt = ["libre2-dev"], modules = {"re2": ["re2"]})
    pkg_config_repository(name = "tbb", apt = ["libtbb-dev"], modules = {"tbb": ["tbb"]}, optional = True)
    pkg_config_repository(name = "zlib", apt = ["zlib1g-dev"], modules = {"zlib": ["zlib"]})
    native.new_local_repository(
        name = "com_google_protobuf",
        build_file = "//third_party:protobuf.BUILD",
        path = "/usr/include",
    )
